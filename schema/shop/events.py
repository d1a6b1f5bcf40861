"""The subscriptions to orders and to the stock of products."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import strawberry

from portico.resolvers.errors import InvalidInput
from portico.resolvers.shop.events import ALL_ORDERS, changes_of_order, orders_of_owner, stock_of
from portico.resolvers.texts import trimmed
from portico.schema.catalog.products import PRODUCT, Product
from portico.schema.context import Info
from portico.schema.inputs import described
from portico.schema.reading import find_visible
from portico.schema.subscriptions import occurrences, states

from .orders import ORDER, Order, is_merchant

MAX_SKUS = 100


@strawberry.type
class ShopSubscription:
    @strawberry.subscription(
        description="Delivers an order when it is placed, when its status changes, and when its money was given back. "
        "Without an id, these are the orders of the viewer; a MERCHANT gets those of all buyers."
    )
    async def order_changed(
        self,
        info: Info,
        id: Annotated[strawberry.ID | None, described("Only this order, which the caller must be able to see.")] = None,
    ) -> AsyncIterator[Order]:
        context = info.context
        if id is not None:
            topic = changes_of_order((await find_visible(context, ORDER, id))["_id"])
        else:
            caller = context.require_caller()
            topic = ALL_ORDERS if is_merchant(context) else orders_of_owner(caller.subject)
        listened: AsyncIterator[Order] = await occurrences(context, topic, ORDER)
        return listened

    @strawberry.subscription(
        description="Delivers a product whenever the counts of its stock change. Read `stock` of the product. The last "
        "state always arrives; a slow client can miss states in between."
    )
    async def stock_changed(
        self, info: Info, skus: Annotated[list[str], described("The products, 1 to 100.")]
    ) -> AsyncIterator[Product]:
        topics: list[Any] = [stock_of(trimmed(sku)) for sku in skus]
        if not 1 <= len(topics) <= MAX_SKUS:
            text = f"`skus` must have 1 to {MAX_SKUS} SKUs; got {len(topics):,}."
            code = InvalidInput.TOO_MANY if topics else InvalidInput.TOO_FEW
            raise InvalidInput(text, "skus", code=code, least=1, most=MAX_SKUS)
        first, *others = topics
        listened: AsyncIterator[Product] = await states(info.context, first, PRODUCT, order=_no_order, also=others)
        return listened


def _no_order(_product: Any) -> None:
    """Counts have no order that products share: each state is read after its event."""
