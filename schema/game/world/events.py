"""The subscription to a room."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import strawberry

from portico.resolvers.changes import Event
from portico.resolvers.errors import NotFound
from portico.resolvers.game.world.events import changes_of
from portico.resolvers.game.world.locations import LocationDocument
from portico.resolvers.writes.retries import pause
from portico.schema.context import Context, Info
from portico.schema.inputs import described
from portico.schema.kinds import Kind
from portico.schema.subscriptions import read_shared, states

from .locations import LOCATION, Location

_PAUSE_SECONDS = 0.05


def _version_of(room: Any) -> int | None:
    version = room.get("version")
    return version if isinstance(version, int) else None


async def _show(context: Context, event: Event) -> LocationDocument | None:
    """Returns the room, which has at least the version of the event.

    A primary that has just been replaced may still show an older one. Then it reads again, until the operation times
    out.
    """
    room, _ = await read_shared(context, event, LOCATION, event.key.room)
    while room is not None and (_version_of(room) or event.key.version) < event.key.version:
        await pause(_PAUSE_SECONDS)
        room = (await LOCATION.read(context.db, None)([event.key.room])).get(event.key.room)
    return room


@strawberry.type
class LocationSubscription:
    @strawberry.subscription(
        description="Delivers the room whenever somebody or something comes or goes, or its texts or exits change. "
        "The last state always arrives. A slow client can miss states in between; it never gets an older state after "
        "a newer one."
    )
    async def location_changed(
        self, info: Info, id: Annotated[strawberry.ID, described("The room.")]
    ) -> AsyncIterator[Location]:
        key = Kind.key_in(info.context, LOCATION.name, id)
        if not await LOCATION.read(info.context.db, {"_id": 1})([key]):
            raise NotFound(LOCATION.name, str(key))
        listened: AsyncIterator[Location] = await states(info.context, changes_of(key), _show, order=_version_of)
        return listened
