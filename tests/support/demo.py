"""The demo's data for tests. The workers of a session load it once, and each test gets a copy."""

from __future__ import annotations

import asyncio
import fcntl
import io
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from portico.gateway.cli import data as cli_data
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database

_NAME = "demo"


@dataclass(frozen=True)
class Demo:
    """The demo's data in a database that no test changes. `printed` is what loading it has printed."""

    printed: str
    database: str = _NAME

    async def copy_to(self, db: Database) -> None:
        """Stores the data in an empty database on the same server."""
        source = db.client[self.database]
        for name in await source.list_collection_names():
            target = {"into": {"db": db.name, "coll": name}, "whenMatched": "fail"}
            await (await source[name].aggregate([{"$merge": target}])).to_list()


async def load_demo(settings: Settings) -> str:
    """Loads the demo, as `portico demo` does. Returns what that prints."""
    printed = io.StringIO()
    await cli_data.load_demo(settings, 1, Console(file=printed, width=100))
    return printed.getvalue()


def load_demo_once(uri: str, folder: Path) -> Demo:
    """Loads the demo, unless another worker with this folder has loaded it."""
    printed = folder / "demo.txt"
    with (folder / "demo.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not printed.exists():
            settings = Settings(mongodb_uri=Secret(uri), database=_NAME, data_dir=folder / "demo")
            printed.write_text(asyncio.run(load_demo(settings)))
    return Demo(printed.read_text())
