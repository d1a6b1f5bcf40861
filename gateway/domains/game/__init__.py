"""The game: rooms, characters and their items, and inventories of any size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from portico.resolvers.documents import Database
from portico.resolvers.domains import Domain, Resources, Service
from portico.resolvers.game import events as sources
from portico.resolvers.game.blueprints import BLUEPRINTS
from portico.resolvers.game.characters import CHARACTERS
from portico.resolvers.game.combining import Rooms
from portico.resolvers.game.locations import LOCATIONS
from portico.resolvers.game.settings import GameSettings
from portico.schema.game import characters, events, locations
from portico.schema.game.acting import GameMutation

from .world import world


@asynccontextmanager
async def _rooms(_settings: Resources, _db: Database) -> AsyncIterator[Rooms]:
    rooms = Rooms()
    try:
        yield rooms
    finally:
        await rooms.close()


DOMAIN = Domain(
    name="game",
    about="A world of rooms, its characters and their items.",
    collections=(CHARACTERS, LOCATIONS, BLUEPRINTS),
    settings=GameSettings,
    services=(Service(Rooms, _rooms),),
    importers={"world": world()},
    kinds=(characters.CHARACTER, locations.LOCATION),
    queries=(characters.CharacterQuery, locations.LocationQuery),
    subscriptions=(events.LocationSubscription,),
    events=sources.SOURCES,
    mutations=(GameMutation,),
    extensions={"Viewer": (characters.CharacterViewer,)},
)
