"""The servers that the bench measures. To change how a server starts, edit PEERS."""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import orjson

from bench import node

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[1]
FLOOR = "floor"


@dataclass(frozen=True)
class Peer:
    """A server with one process. `{port}` in its command stands for its port.

    Every peer reads PORTICO_MONGODB_URI and PORTICO_DATABASE, and answers POST requests at `path`.
    """

    name: str
    command: tuple[str, ...]
    packages: tuple[str, ...]  # the report shows their versions
    path: str = "/graphql"
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_node(self) -> bool:
        return self.command[0] == "node"

    def missing(self) -> str | None:
        """Return why the peer cannot start here, or None."""
        if self.in_node:
            return node.missing()
        return None if shutil.which(self.command[0]) else f"no command {Path(self.command[0]).name}"

    def versions(self) -> dict[str, str]:
        return {name: node_version(name) if self.in_node else python_version(name) for name in self.packages}


def python_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "?"


def node_version(name: str) -> str:
    return str(orjson.loads((node.MODULES / name / "package.json").read_bytes())["version"])


def uvicorn(app: str) -> tuple[str, ...]:
    options = "--host 127.0.0.1 --port {port} --workers 1 --loop uvloop --http httptools --no-access-log"
    return (sys.executable, "-m", "uvicorn", app, *options.split(), "--log-level", "warning")


def node_peer(name: str, *packages: str) -> Peer:
    return Peer(
        name,
        ("node", str(node.FOLDER / f"{name}.mjs"), "{port}"),
        (*packages, "graphql", "mongodb"),
        env={"NODE_ENV": "production"},
    )


PEERS = (
    Peer(FLOOR, uvicorn("bench.peers.floor:app"), ("starlette", "uvicorn", "pymongo", "orjson")),
    Peer(
        "portico",
        (str(BIN / "portico"), "serve", "--host", "127.0.0.1", "--port", "{port}", "--workers", "1"),
        ("portico", "strawberry-graphql", "graphql-core", "pymongo"),
    ),
    Peer("strawberry", uvicorn("bench.peers.plain:app"), ("strawberry-graphql", "graphql-core", "pymongo")),
    node_peer("yoga", "graphql-yoga"),
    node_peer("apollo", "@apollo/server"),
    node_peer("mercurius", "mercurius", "fastify", "graphql-jit"),
)


def choose(names: str) -> list[Peer]:
    """Return the peers of a comma-separated list, or all. The floor is always included, as the base of all ratios."""
    known = {peer.name: peer for peer in PEERS}
    wanted = {name.strip() for name in names.split(",") if name.strip()} or set(known)
    if unknown := wanted - set(known):
        message = f"there is no peer {', '.join(sorted(unknown))}. The peers are: {', '.join(known)}."
        raise ValueError(message)
    return [peer for peer in PEERS if peer.name in wanted | {FLOOR}]
