"""Derives notifications from keys of what has happened, and stores each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pymongo.errors import BulkWriteError

from portico.resolvers.attachments import Hosts
from portico.resolvers.documents import Database
from portico.resolvers.notifying import NotificationSource
from portico.resolvers.writes.sweeps import SweepFailed, is_outage

from .notifications import NOTIFICATIONS, NotificationDocument, new_notification

_DUPLICATE = 11000


@dataclass
class Storing:
    """One pass: what it has stored, and the failures of what it could not derive."""

    db: Database
    hosts: Hosts
    now: datetime
    kept: timedelta
    done: int = 0
    failures: list[Exception] = field(default_factory=list)

    async def store(self, source: NotificationSource, keys: Sequence[Any], *, since: datetime | None = None) -> None:
        """Stores the notifications of these keys, except of what happened before `since`.

        Raises:   a driver's error, if the database is unreachable. Then the call is to be repeated.
        Writes:   notifications; one insert of many. A notification that exists already stays as it is.
        """
        found: dict[str, NotificationDocument] = {}
        for notice in await self._notices(source, keys):
            if self._is_news(notice, since):
                one = new_notification(notice, kept=self.kept)
                found.setdefault(one["_id"], one)
        if found:
            self.done += await _insert(self.db, list(found.values()))

    def end(self) -> int:
        """Returns how much was stored. Raises SweepFailed if something could not be derived."""
        if self.failures:
            raise SweepFailed.of(self.failures, self.done)
        return self.done

    def _is_news(self, notice: NotificationSource.Notice, since: datetime | None) -> bool:
        """Returns whether the member is to be notified.

        What is older than notifications are kept is no news: its notification may have been deleted already.
        """
        is_own = notice.by is not None and notice.by["id"] == notice.to
        return not is_own and notice.at > self.now - self.kept and (since is None or notice.at >= since)

    async def _notices(self, source: NotificationSource, keys: Sequence[Any]) -> list[NotificationSource.Notice]:
        """Returns the notices of the keys. A key whose notices cannot be derived fails alone."""
        try:
            return _checked(source, await source.notices(self.db, self.hosts, keys))
        except Exception as error:
            if is_outage(error):
                raise
            if len(keys) == 1:
                error.add_note(f"In the notifications {source.name}: {keys[0]!r}")
                self.failures.append(error)
                return []
        return [notice for key in keys for notice in await self._notices(source, [key])]


def _checked(
    source: NotificationSource, notices: Iterable[NotificationSource.Notice]
) -> list[NotificationSource.Notice]:
    """Returns the notices. Raises ValueError for one that the source does not declare."""
    found = list(notices)
    for notice in found:
        if notice.reason not in source.reasons:
            raise ValueError(f"The source {source.name} does not declare the reason {notice.reason}.")
    return found


async def _insert(db: Database, documents: Sequence[NotificationDocument]) -> int:
    """Inserts those that do not exist. Returns how many."""
    try:
        await NOTIFICATIONS.of(db).insert_many(documents, ordered=False)
    except BulkWriteError as error:
        refused = error.details["writeErrors"]
        if error.details["writeConcernErrors"] or any(one["code"] != _DUPLICATE for one in refused):
            raise
        return len(documents) - len(refused)
    return len(documents)
