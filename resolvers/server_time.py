"""What time it is for the database server, which all processes share."""

from __future__ import annotations

from datetime import datetime

from .documents import Database


async def server_time(db: Database) -> datetime:
    """The time of the server that takes the writes: UTC, to the millisecond."""
    told: datetime = (await db.command("hello"))["localTime"]
    return told
