"""What the stored figures were measured on: the commit, and a sketch of the sources that they measure.

A change of the sources makes figures a little older, and many changes make them wrong. A sketch is the smallest hashes
of the lines of the sources. The share of hashes that two sketches have in common is about the share of lines that two
versions have in common, so a test can see figures that are out of date without the history of the repository.

Source: Broder, On the resemblance and containment of documents, 1997.
"""

import hashlib
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from bench.peerlist import ROOT

RESULTS = Path(__file__).parent / "results"
# Below this share of common lines, the figures must be measured again.
LEAST_LIKENESS = 0.6
_HASHES = 400
_PLANS = ("gateway/operations", "gateway/mongo", "loaders/batching.py", "schema/nodes.py", "schema/fields.py")
_CATALOG = (
    "loaders/catalog",
    "resolvers/catalog",
    "resolvers/paging.py",
    "resolvers/projections.py",
    "schema/catalog",
    "schema/connections.py",
)
_SERVING = ("gateway/http", "gateway/deadlines.py")
_READS = ("gateway/reads", "gateway/loop_steps.py", "schema/watching.py")


def _domain(name: str, *rooms: str) -> tuple[str, ...]:
    return tuple(f"{room}/{name}" for room in (*rooms, "resolvers", "schema"))


# What each command measures: files, and folders with all that is in them.
MEASURED: Mapping[str, tuple[str, ...]] = {
    "ads": _domain("ads"),
    "analytics": _domain("analytics"),
    "cached": (*_SERVING, *_READS, "gateway/cache"),
    "comments": _domain("comments", "loaders"),
    "game": _domain("game", "loaders"),
    "game_trades": _domain("game", "loaders"),
    "large": _CATALOG,
    "live": (*_SERVING, *_READS, "gateway/live_queries.py"),
    "operations": (*_PLANS, *_CATALOG),
    "page": (*_SERVING, *_PLANS, *_CATALOG),
    "precision": ("gateway/reads", "gateway/live_queries.py"),
    "profile": (*_SERVING, *_PLANS, *_CATALOG),
    "reconnects": (*_SERVING, "gateway/live.py", "gateway/resuming.py", "resolvers/missed_changes.py"),
    "shop": _domain("shop", "loaders"),
    "social": _domain("social", "loaders"),
    "subscribers": (*_SERVING, "gateway/live.py", "gateway/answers.py", "gateway/loop_steps.py"),
    "writes": (
        "schema/mutations.py",
        "resolvers/writes",
        *(f"resolvers/{name}" for name in ("accounts", "comments", "game", "shop", "social")),
    ),
    "worst": ("gateway/operations", "gateway/mongo", "loaders", "resolvers", "schema"),
}


def sketch(texts: Iterable[str]) -> list[str]:
    """Return the sketch of these sources."""
    lines = {line.strip() for text in texts for line in text.splitlines()}
    return sorted(hashlib.blake2b(line.encode(), digest_size=4).hexdigest() for line in lines if line)[:_HASHES]


def likeness(one: list[str], other: list[str]) -> float:
    """Return about which share of the lines two versions have in common."""
    smallest = sorted({*one, *other})[:_HASHES]
    return len({*one} & {*other} & {*smallest}) / len(smallest)


def sources(name: str, root: Path = ROOT) -> list[str]:
    """Return the texts of the sources that a command measures."""
    found = [root / path for path in MEASURED[name]]
    files = [file for path in found for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return [file.read_text() for file in files if file.is_file()]


def origin(name: str) -> dict[str, Any]:
    """Return the commit and the sketch of the sources, to store with figures that were measured just now."""
    return {"commit": _commit(name), "sources": sketch(sources(name))}


def _commit(name: str) -> str:
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{commit} with changes" if _git("status", "--porcelain", "--", *MEASURED[name]) else commit


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def stored(name: str) -> dict[str, Any]:
    """Return the stored figures of a command."""
    found: dict[str, Any] = orjson.loads((RESULTS / f"{name}.json").read_bytes())
    return found
