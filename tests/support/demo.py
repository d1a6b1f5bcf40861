"""The demo's data for tests. The workers of a session load it once, and each test gets a copy."""

from __future__ import annotations

import asyncio
import fcntl
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.database import Database
from rich.console import Console

from portico.gateway.cli import data as cli_data
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from tests.support.databases import note_indexes, time_of, written_since

_NAME = "demo"


@dataclass(frozen=True)
class Demo:
    """The demo's data in a database that no test changes. `printed` is what loading it has printed."""

    printed: str
    database: str = _NAME

    def copy_to(self, settings: Settings) -> None:
        """Stores the data in the database of these settings, which is empty and on the same server."""
        with MongoClient[dict[str, Any]](settings.mongodb_uri) as client:
            copy(client[self.database], client[settings.database])


class RestoredDemo:
    """The demo's data in another database, which several tests change one after the other."""

    def __init__(self, demo: Demo, db: Database[dict[str, Any]]) -> None:
        """Stores the data in the database, which is empty and on the same server."""
        self.name = db.name
        self._db = db
        self._source = db.client[demo.database]
        copy(self._source, db)
        self._at = time_of(db)

    def restore(self) -> None:
        """Stores the data of all collections again that have changed."""
        written = written_since(self._db, self._at, ("i", "u", "d"))
        for name in self._db.list_collection_names() if written is None else written:
            self._db[name].delete_many({})
        copy(self._source, self._db, written)
        self._at = time_of(self._db)


def copy(
    source: Database[dict[str, Any]], target: Database[dict[str, Any]], names: Iterable[str] | None = None
) -> None:
    """Copies the documents of the collections with these names, or of all, to empty ones."""
    for name in source.list_collection_names() if names is None else names:
        into = {"into": {"db": target.name, "coll": name}, "whenMatched": "fail"}
        source[name].aggregate([{"$merge": into}])


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
    note_indexes(_NAME)
    return Demo(printed.read_text())
