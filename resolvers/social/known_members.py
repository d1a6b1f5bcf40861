"""Remembers who has joined. Nobody ever leaves, so a vote need not look again.

A member is read again after a minute, in case the database was restored meanwhile.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from portico.resolvers.documents import Database
from portico.resolvers.lru import Lru

from . import members

# Subjects of tokens, usually of less than a hundred bytes.
_MOST = 10_000
_KEPT = timedelta(minutes=1)


class KnownMembers:
    """The members that a process has met lately."""

    def __init__(self) -> None:
        self._read_at: Lru[str, datetime] = Lru(_MOST)

    def has(self, subject: str, now: datetime) -> bool:
        """Returns whether the caller has certainly joined."""
        read_at = self._read_at.get(subject)
        return read_at is not None and read_at <= now < read_at + _KEPT

    async def require(self, db: Database, subject: str, *, now: datetime) -> None:
        """Reads whether the caller has joined. Raises NotFound."""
        await members.require(db, subject, {"_id": 1})
        self._read_at.put(subject, now)
