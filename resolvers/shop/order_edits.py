"""Steps of orders on their way to the buyer."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pymongo import ReturnDocument

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, NotFound
from portico.resolvers.shop.refusals import OrderStatusConflict
from portico.resolvers.texts import require_line
from portico.resolvers.writes.retries import attempts

from .orders import DELIVERED, ORDERS, PLACED, SHIPPED, find_by_ids, stepped, was_changed_by

MAX_TRACKING_NUMBER = 100


async def ship(
    db: Database, *, order_id: str, tracking_number: str | None, now: datetime, operation_id: str
) -> Document:
    """Marks a placed order as shipped.

    Args:     tracking_number: 1 to 100 characters, or None.
    Returns:  the order.
    Raises:   NotFound, InvalidInput, OrderStatusConflict (the order is not placed any more).
    Writes:   orders; one guarded update.
    """
    if tracking_number is not None:
        tracking_number = require_line(tracking_number, "tracking_number", longest=MAX_TRACKING_NUMBER)
    values = {"tracking_number": tracking_number}
    return await _step(db, order_id, (PLACED, SHIPPED), values, now=now, operation_id=operation_id)


async def deliver(db: Database, *, order_id: str, now: datetime, operation_id: str) -> Document:
    """Marks a shipped order as delivered.

    Returns:  the order.
    Raises:   NotFound, OrderStatusConflict (the order is not on its way).
    Writes:   orders; one guarded update.
    """
    return await _step(db, order_id, (SHIPPED, DELIVERED), {}, now=now, operation_id=operation_id)


async def require_order(db: Database, order_id: str) -> Any:
    """Returns the whole order. Raises NotFound."""
    order = (await find_by_ids(db, [order_id])).get(order_id)
    if order is None:
        raise NotFound("Order", order_id)
    return order


async def _step(
    db: Database, order_id: str, way: tuple[str, str], values: Document, *, now: datetime, operation_id: str
) -> Document:
    source, target = way
    async for _ in attempts():
        order: Document = await require_order(db, order_id)
        if was_changed_by(order, operation_id):
            return order
        if order["status"] != source:
            raise OrderStatusConflict(order)
        update = stepped(order, target, now=now, operation_id=operation_id)
        update["$set"] |= values
        after = await db[ORDERS.name].find_one_and_update(
            {"_id": order_id, "status": source}, update, return_document=ReturnDocument.AFTER
        )
        if after is not None:
            return after
    raise Conflict("Other callers are changing the order. Try again.")
