"""What members are notified of: their orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from portico.resolvers.attachments import Hosts
from portico.resolvers.changes import Event, inserts
from portico.resolvers.documents import Database, Document
from portico.resolvers.notifying import Backlog, Notice, NotificationSource

from . import orders
from .orders import ORDERS

PLACED = "ORDER_PLACED"


async def _notices(db: Database, _hosts: Hosts, ids: Sequence[str]) -> Iterable[Notice]:
    """Returns the notices of orders whose buyer is known. One command."""
    found = await orders.find_by_ids(db, ids, {"owner": 1, "placed_at": 1})
    return [
        Notice(reason=PLACED, to=order["owner"], about=("Order", order["_id"]), at=order["placed_at"])
        for order in found.values()
        if order["owner"] is not None
    ]


def _placed_in(order: Document, since: datetime) -> Iterator[str]:
    if order["placed_at"] >= since:
        yield order["_id"]


SOURCES: Sequence[NotificationSource] = (
    NotificationSource(
        name="orders",
        reasons={PLACED: "The viewer's order is paid for and placed."},
        changes=inserts(ORDERS, (), lambda order: Event("orders placed", order["_id"])),
        notices=_notices,
        backlogs=(Backlog(ORDERS, ("placed_at",), _placed_in),),
    ),
)
