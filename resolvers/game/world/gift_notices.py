"""What players are notified of: gifts to their characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from bson import ObjectId

from portico.resolvers.attachments import Hosts
from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Database, Document
from portico.resolvers.notifying import NotificationSource

from .gift_records import GIFTS

RECEIVED = "GIFT_RECEIVED"


async def _notices(db: Database, _hosts: Hosts, ids: Sequence[ObjectId]) -> Iterable[NotificationSource.Notice]:
    """Returns what the receivers are to know. One command.

    The notice does not say who has given it: only the names of characters are known to other players.
    """
    gifts: Any = db[GIFTS.name].find({"_id": {"$in": list(ids)}}, {"owner": 1, "given_at": 1})
    return [
        NotificationSource.Notice(
            reason=RECEIVED, to=gift["owner"], about=("Gift", str(gift["_id"])), at=gift["given_at"]
        )
        for gift in await gifts.to_list()
    ]


def _gifts_in(gift: Document, since: datetime) -> Iterator[ObjectId]:
    if gift["given_at"] >= since:
        yield gift["_id"]


SOURCES: Sequence[NotificationSource] = (
    NotificationSource(
        name="gifts",
        reasons={RECEIVED: "Somebody has given something to a character of the viewer."},
        changes=ChangeSource.inserts(GIFTS, (), lambda gift: Event("gifts", gift["_id"])),
        notices=_notices,
        backlogs=(NotificationSource.Backlog(GIFTS, ("given_at",), _gifts_in),),
    ),
)
