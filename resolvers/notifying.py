"""What domains notify members of.

A domain declares a `NotificationSource`: the changes in the database after which somebody is notified, and a function
that derives the notices from what is stored. The write that causes a notice knows nothing of it, and sends nothing
more. The domain `notifications` follows the changes of all sources and stores a notification for each notice, once.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .attachments import Hosts
from .changes import ChangeSource
from .documents import Author, CollectionSpec, Database, Document

_REASON = re.compile("[A-Z][A-Z0-9_]{0,63}")


@dataclass(frozen=True, kw_only=True)
class NotificationSource:
    """Changes after which members are notified.

    Args:     name: lower case; unique among all sources.
              reasons: what each notice with this reason says, by its name in capital letters: it is a value of the
              enum `NotificationReason`. The text is one readable sentence.
              changes: a source of events, each with the key of what has happened. It can be the one of a subscription.
              notices: derives the notices from what is stored now. It gets the keys of several events.
              backlogs: the collections in which the keys are found again, if the change stream cannot be resumed.

    Raises ValueError for another name of a reason.
    """

    @dataclass(frozen=True, kw_only=True)
    class Notice:
        """Something that one member is notified of.

        Args:     reason: one of those of the source.  to: the subject of the member.
                  about: the object to look at: its kind, and its key as text.  at: when it happened.
                  by: who did it; None if nobody did. Nobody is notified of what they did themselves.
                  key: tells notices with one reason to one member apart; by default, the object. A member gets one
                  notification for each.
        """

        reason: str
        to: str
        about: tuple[str, str]
        at: datetime
        by: Author | None = None
        key: str = ""

    @dataclass(frozen=True)
    class Backlog:
        """Where the keys of a source are stored, for the time after which the change stream could not be resumed.

        Args:     spec: the collection.  paths: what `keys` reads, besides `_id`.
                  keys: returns the keys of what happened to this document at this time or later.
        """

        spec: CollectionSpec[Any]
        paths: Sequence[str]
        keys: Callable[[Document, datetime], Iterable[Any]]

    name: str
    reasons: Mapping[str, str]
    changes: ChangeSource
    notices: Callable[[Database, Hosts, Sequence[Any]], Awaitable[Iterable[Notice]]]
    backlogs: Sequence[Backlog]

    def __post_init__(self) -> None:
        for reason in self.reasons:
            if not _REASON.fullmatch(reason) or reason == OTHER:
                raise ValueError(
                    f"A reason of notices has the name {reason!r}. Use capital letters, digits, underscores."
                )


# What clients see in place of a reason that no served domain declares.
OTHER = "OTHER"
# Returns those of the members of whom the viewer gets no notifications.
HiddenMembers = Callable[[Database, str, Collection[str]], Awaitable[Collection[str]]]


@dataclass(frozen=True)
class Notifications:
    """What the served domains declare."""

    sources: Sequence[NotificationSource] = ()
    hidden_members: Sequence[HiddenMembers] = ()
    reasons: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        found = {name: about for source in self.sources for name, about in source.reasons.items()}
        object.__setattr__(self, "reasons", found)

    async def hidden(self, db: Database, viewer: str, members: Iterable[str]) -> set[str]:
        """Returns those of the members of whom the viewer gets no notifications. One command a domain, or none."""
        others = set(members) - {viewer}
        found: set[str] = set()
        if others:
            for hidden in self.hidden_members:
                found |= set(await hidden(db, viewer, others))
        return found
