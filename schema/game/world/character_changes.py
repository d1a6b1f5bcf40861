"""The subscription to a character of the viewer."""

from collections.abc import AsyncIterator
from typing import Annotated

import strawberry

from portico.resolvers.errors import NotFound
from portico.resolvers.game.world import character_events
from portico.schema.context import Info
from portico.schema.inputs import described
from portico.schema.reading import find_visible
from portico.schema.subscriptions import states

from .characters import CHARACTER, Character


@strawberry.type
class CharacterSubscription:
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
        topic = character_events.changes_of(key)
        listened: AsyncIterator[Character] = await states(
            info.context, topic, CHARACTER, order=character_events.order_of
        )
        return listened
