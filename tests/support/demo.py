"""The demo's data for tests. The workers of a session load it once, and each test gets a copy."""

from __future__ import annotations

import asyncio
import fcntl
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from rich.console import Console

from portico.gateway.cli import data as cli_data
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret

_NAME = "demo"


@dataclass(frozen=True)
class Demo:
    """The demo's data in a database that no test changes. `printed` is what loading it has printed."""

    printed: str
    database: str = _NAME

    def copy_to(self, settings: Settings) -> None:
        """Stores the data in the database of these settings, which is empty and on the same server."""
        with MongoClient[dict[str, Any]](settings.mongodb_uri) as client:
            source = client[self.database]
            for name in source.list_collection_names():
                target = {"into": {"db": settings.database, "coll": name}, "whenMatched": "fail"}
                source[name].aggregate([{"$merge": target}])


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
