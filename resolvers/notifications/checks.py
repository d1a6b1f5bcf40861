"""What `portico doctor` checks of notifications."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from portico.resolvers.documents import Database
from portico.resolvers.problems import Problem

from .notifications import NOTIFICATIONS, NotificationDocument, key_of

_subject = Problem.named("notification")


async def find_wrong_notifications(db: Database) -> AsyncIterator[Problem]:
    """Yields the notifications that contradict themselves, or that a member could get twice."""

    async def find(batch: list[NotificationDocument]) -> AsyncIterator[Problem]:
        for one in batch:
            for text in _wrong(one):
                yield Problem(_subject(one), text)

    async for problem in Problem.all_in(NOTIFICATIONS.of(db).find(), find, _subject):
        yield problem


def _wrong(one: NotificationDocument) -> Iterator[str]:
    if one["_id"] != key_of(one["of"], one["reason"], one["key"]):
        yield "its id does not follow from its member, its reason and its key"
    if bool(one.get("unread")) == ("read_at" in one):
        yield "it is neither read nor unread, or both"
    if one["forget_at"] <= one["created_at"]:
        yield "it is deleted before it was created"
    if "by" in one and one["by"]["id"] == one["of"]:
        yield "it is about what its member has done"
