"""The subscriptions of a player: to a character, and to the player's trades."""

from collections.abc import AsyncIterator
from typing import Annotated

import strawberry

from portico.resolvers.changes import Event
from portico.resolvers.errors import NotFound
from portico.resolvers.game import character_events, trade_events
from portico.resolvers.game.trade_records import TradeDocument
from portico.schema.access import require_caller
from portico.schema.context import Context, Info
from portico.schema.inputs import described
from portico.schema.reading import find_visible
from portico.schema.subscriptions import occurrences, read_shared, show_object, states

from .characters import CHARACTER, Character
from .inventories import TRADE, Trade


async def _show_trade(context: Context, event: Event) -> TradeDocument | None:
    trade, is_seen = await read_shared(context, event, TRADE, event.key.trade)
    return trade if is_seen else None


@strawberry.type
class PlayerSubscription:
    @strawberry.subscription(
        description="Delivers a character of the viewer whenever an action of it has ended, somebody has given it "
        "something, or its room has changed. The last state always arrives; a slow client can miss states in between."
    )
    async def character_changed(
        self, info: Info, id: Annotated[strawberry.ID, described("The character.")]
    ) -> AsyncIterator[Character]:
        found = await find_visible(info.context, CHARACTER, id)
        key = found["_id"]
        if not character_events.is_players(key):
            raise NotFound(CHARACTER.name, str(key), "The character belongs to no player.")
        topic, show = character_events.changes_of(key), show_object(CHARACTER)
        listened: AsyncIterator[Character] = await states(info.context, topic, show, order=character_events.order_of)
        return listened

    @strawberry.subscription(
        description="Delivers each trade of the viewer when it is offered, settled or cancelled, from now on."
    )
    async def trade_changed(self, info: Info) -> AsyncIterator[Trade]:
        topic = trade_events.trades_of(require_caller(info.context).subject)
        listened: AsyncIterator[Trade] = await occurrences(info.context, topic, _show_trade)
        return listened
