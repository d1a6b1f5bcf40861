"""What members are notified of: their orders, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from portico.resolvers.attachments import Hosts
from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Database, Document
from portico.resolvers.notifying import NotificationSource

from .orders import ORDERS

PLACED = "ORDER_PLACED"
# By the status of the order.
REASONS = {
    "PLACED": PLACED,
    "SHIPPED": "ORDER_SHIPPED",
    "DELIVERED": "ORDER_DELIVERED",
    "CANCELLED": "ORDER_CANCELLED",
}
_STATUS = "updateDescription.updatedFields.status"
_SHOWN = {"owner": 1, "placed_at": 1, "history.status": 1, "history.at": 1}


async def _notices(db: Database, _hosts: Hosts, ids: Sequence[str]) -> Iterable[NotificationSource.Notice]:
    """Returns the notices of orders whose buyer is known, for each status that they had. One command."""
    orders: Any = await db[ORDERS.name].find({"_id": {"$in": list(ids)}}, _SHOWN).to_list()
    return [
        NotificationSource.Notice(reason=REASONS[status], to=order["owner"], about=("Order", order["_id"]), at=at)
        for order in orders
        if order["owner"] is not None
        for status, at in _history(order).items()
        if status in REASONS
    ]


def _history(order: Mapping[str, Any]) -> dict[str, datetime]:
    """Returns since when the order has had each status."""
    changes = {one["status"]: one["at"] for one in order.get("history") or ()}
    return {"PLACED": order["placed_at"], **changes}


def _changed(change: Document) -> Iterator[Event]:
    updated = (change.get("updateDescription") or {}).get("updatedFields") or {}
    if change["operationType"] == "insert" or "status" in updated:
        key = change["documentKey"]["_id"]
        yield Event("orders", key)


def _changed_in(order: Document, since: datetime) -> Iterator[str]:
    if max(_history(order).values()) >= since:
        yield order["_id"]


SOURCES: Sequence[NotificationSource] = (
    NotificationSource(
        name="orders",
        reasons={
            PLACED: "The viewer's order is paid for and placed.",
            REASONS["SHIPPED"]: "The viewer's order has been shipped.",
            REASONS["DELIVERED"]: "The viewer's order has been delivered.",
            REASONS["CANCELLED"]: "The viewer's order is cancelled.",
        },
        changes=ChangeSource(
            frozenset({ORDERS.name}),
            {"$or": [{"operationType": "insert"}, {"operationType": "update", _STATUS: {"$exists": True}}]},
            ("documentKey", _STATUS),
            _changed,
        ),
        notices=_notices,
        backlogs=(NotificationSource.Backlog(ORDERS, ("placed_at", "history.status", "history.at"), _changed_in),),
    ),
)
