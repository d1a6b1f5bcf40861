"""What players are notified of: trades that they are offered, and those that others have accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from bson import ObjectId

from portico.resolvers.attachments import Hosts
from portico.resolvers.documents import Author, Database, Document
from portico.resolvers.notifying import NotificationSource

from . import trade_records
from .stacks import NPC_PREFIX
from .trade_events import CHANGED, Changed
from .trade_records import ACCEPTED, SETTLED, TRADES

OFFERED, ACCEPTED_BY = "TRADE_OFFERED", "TRADE_ACCEPTED"
_SHOWN = dict.fromkeys(("state", "from.owner", "to.owner", "created_at", "concluded_at"), 1)


async def _notices(db: Database, _hosts: Hosts, changes: Sequence[Changed]) -> Iterable[NotificationSource.Notice]:
    """Returns what the two sides of each trade are to know. One command."""
    found = await trade_records.find_by_ids(db, list({one.trade for one in changes}), _SHOWN)
    return [notice for trade in found.values() for notice in _notices_of(trade["_id"], trade)]


def _notices_of(key: ObjectId, trade: Any) -> Iterator[NotificationSource.Notice]:
    source, to = trade["from"]["owner"], trade["to"]["owner"]
    about = ("Trade", str(key))
    if not to.startswith(NPC_PREFIX):
        yield NotificationSource.Notice(reason=OFFERED, to=to, about=about, by=_player(source), at=trade["created_at"])
    if trade["state"] in {ACCEPTED, SETTLED} and not source.startswith(NPC_PREFIX):
        yield NotificationSource.Notice(
            reason=ACCEPTED_BY, to=source, about=about, by=_player(to), at=trade["concluded_at"]
        )


def _player(owner: str) -> Author:
    """Returns the owner of an inventory, who has no other name."""
    return {"id": owner, "name": owner}


def _trades_in(trade: Document, since: datetime) -> Iterator[Changed]:
    if max(trade["created_at"], trade.get("concluded_at") or trade["created_at"]) >= since:
        yield Changed(trade["_id"], "")


SOURCES: Sequence[NotificationSource] = (
    NotificationSource(
        name="trades",
        reasons={
            OFFERED: "Somebody offers the viewer a trade.",
            ACCEPTED_BY: "Somebody has accepted a trade that the viewer offered.",
        },
        changes=CHANGED,
        notices=_notices,
        backlogs=(NotificationSource.Backlog(TRADES, ("created_at", "concluded_at"), _trades_in),),
    ),
)
