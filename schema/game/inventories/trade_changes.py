"""The subscription to the trades of the viewer."""

from collections.abc import AsyncIterator

import strawberry

from portico.resolvers.changes import Event
from portico.resolvers.game.inventories import trade_events
from portico.resolvers.game.inventories.trade_records import TradeDocument
from portico.schema.context import Context, Info
from portico.schema.subscriptions import occurrences, read_shared

from .stacks import TRADE, Trade


async def _show_trade(context: Context, event: Event) -> TradeDocument | None:
    trade, is_seen = await read_shared(context, event, TRADE, event.key.trade)
    return trade if is_seen else None


@strawberry.type
class TradeSubscription:
    @strawberry.subscription(
        description="Delivers each trade of the viewer when it is offered, settled or cancelled, from now on."
    )
    async def trade_changed(self, info: Info) -> AsyncIterator[Trade]:
        topic = trade_events.trades_of(info.context.require_caller().subject)
        listened: AsyncIterator[Trade] = await occurrences(info.context, topic, _show_trade)
        return listened
