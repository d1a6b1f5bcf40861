"""The time of the database server, which is the clock of all processes."""

from __future__ import annotations

from datetime import datetime

from .documents import Database


async def server_time(db: Database) -> datetime:
    """Returns the time of the server that accepts writes: UTC, in milliseconds."""
    local_time: datetime = (await db.command("hello"))["localTime"]
    return local_time
