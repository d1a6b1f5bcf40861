"""The time of a place in the changes of a database, and whether the database can have the place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson import Timestamp

from .documents import Database

# No clock of the servers of one database, and no failover, sets a place so far ahead of the newest operation.
_AHEAD_SECONDS = 60
# The type of a timestamp, with which every resume token begins. The seconds and the increment follow, four bytes each.
# Source: src/mongo/db/storage/key_string.cpp and src/mongo/db/pipeline/resume_token.cpp of MongoDB.
_TIMESTAMP = "82"


async def newest_time(db: Database) -> Timestamp:
    """Returns the time of the newest operation of the database."""
    time: Timestamp = (await db.command("ping"))["operationTime"]
    return time


async def is_ahead(db: Database, token: str) -> bool:
    """Returns whether a resume token is of another history: see `is_of_another_history`."""
    return is_of_another_history(token_time({"_data": token}).time, await newest_time(db))


def is_of_another_history(seconds: int, newest: Timestamp) -> bool:
    """Returns whether a place at this time, in seconds, cannot be of this database: it lies far ahead of all changes.

    The database was restored on servers whose clocks are behind those of the former ones. A stream that begins at the
    place would leave out all changes until then, and say nothing.
    """
    return seconds > newest.time + _AHEAD_SECONDS


def token_time(token: Mapping[str, Any] | None) -> Timestamp:
    """Returns the operation time up to which a stream has read, from its resume token; 0 if it does not say."""
    data = "" if token is None else str(token["_data"])
    if not data.startswith(_TIMESTAMP):
        return Timestamp(0, 0)
    return Timestamp(int(data[2:10], 16), int(data[10:18], 16))
