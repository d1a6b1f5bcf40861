"""The changes of orders and of stock that subscriptions deliver."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Document

from .orders import ORDERS
from .stock import STOCK

# The topic of all orders. The key of an event of an order is its `_id`.
ALL_ORDERS: Hashable = "orders"
_CHANGED = "updateDescription.updatedFields.changed"
# What readers see of a stock.
_COUNTERS = ("available", "reserved", "sold")


def changes_of_order(order_id: str) -> Hashable:
    """Returns the topic of an order."""
    return "order", order_id


def orders_of_owner(owner: str) -> Hashable:
    """Returns the topic of a buyer's orders."""
    return "orders", owner


def stock_of(sku: str) -> Hashable:
    """Returns the topic of a product's stock. The key of an event is the SKU."""
    return "stock", sku


def _events_of(order_id: str, owner: str | None) -> Iterator[Event]:
    topics = [changes_of_order(order_id), ALL_ORDERS, *([] if owner is None else [orders_of_owner(owner)])]
    return (Event(topic, order_id) for topic in topics)


def _of_orders(change: Document) -> Iterator[Event]:
    if change["operationType"] == "insert":
        owner = change["fullDocument"]["owner"]
    else:
        owner = change["updateDescription"]["updatedFields"]["changed"]["owner"]
    return _events_of(change["documentKey"]["_id"], owner)


def _counted(change: Document) -> Iterator[Event]:
    sku = change["documentKey"]["_id"]
    yield Event(stock_of(sku), sku)


SOURCES: Sequence[ChangeSource] = (
    # Every update that users can see sets `changed`. Other updates do not.
    ChangeSource(
        frozenset({ORDERS.name}),
        {"$or": [{"operationType": "insert"}, {"operationType": "update", f"{_CHANGED}.op": {"$exists": True}}]},
        ("documentKey", "fullDocument.owner", _CHANGED),
        _of_orders,
    ),
    ChangeSource(
        frozenset({STOCK.name}),
        {
            "operationType": "update",
            "$or": [{f"updateDescription.updatedFields.{name}": {"$exists": True}} for name in _COUNTERS],
        },
        ("documentKey",),
        _counted,
    ),
)
