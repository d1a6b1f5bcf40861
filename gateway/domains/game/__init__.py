"""The game: rooms, characters and their items, and inventories of any size."""

from __future__ import annotations

from portico.resolvers.domains import Domain
from portico.resolvers.game import events as sources
from portico.resolvers.game.characters import CHARACTERS
from portico.resolvers.game.locations import LOCATIONS
from portico.resolvers.game.settings import GameSettings
from portico.schema.game import characters, events, locations

DOMAIN = Domain(
    name="game",
    about="A world of rooms, its characters and their items.",
    collections=(CHARACTERS, LOCATIONS),
    settings=GameSettings,
    kinds=(characters.CHARACTER, locations.LOCATION),
    queries=(characters.CharacterQuery, locations.LocationQuery),
    subscriptions=(events.LocationSubscription,),
    events=sources.SOURCES,
    extensions={"Viewer": (characters.CharacterViewer,)},
)
