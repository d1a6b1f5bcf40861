"""The game: rooms, characters and their items, and inventories of any size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from portico.gateway.outages import log_fault
from portico.resolvers.documents import Database, Document
from portico.resolvers.domains import Domain, Resources, Service
from portico.resolvers.game import character_events, notices, trade_events
from portico.resolvers.game import events as sources
from portico.resolvers.game.blueprints import BLUEPRINTS
from portico.resolvers.game.characters import CHARACTERS
from portico.resolvers.game.locations import LOCATIONS
from portico.resolvers.game.rooms import Rooms
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.game.stacks import STACKS
from portico.resolvers.game.trade_bounds import PAIRS
from portico.resolvers.game.trade_records import TRADES
from portico.resolvers.writes.settler import Settler
from portico.schema.game import characters, events, inventories, keeping, locations, maps, own_events, trading
from portico.schema.game.acting import GameMutation

from . import acting, demo, idling, stacks
from .equipment import equipment
from .world import world

_FOLDER = Path(__file__).parent


@asynccontextmanager
async def _rooms(resources: Resources, _db: Database) -> AsyncIterator[Rooms]:
    rooms = Rooms(_report, resources.of(Settler))
    try:
        yield rooms
    finally:
        await rooms.close()


def _report(error: Exception, step: Document) -> None:
    log_fault("action failed, and is undone", error, kind=step["kind"], character=str(step["character"]))


DOMAIN = Domain(
    name="game",
    about="A world of rooms, its characters and their items.",
    collections=(CHARACTERS, LOCATIONS, BLUEPRINTS, STACKS, TRADES, PAIRS),
    jobs=(*acting.JOBS, *idling.JOBS, *stacks.JOBS),
    invariants=(*acting.INVARIANTS, *stacks.INVARIANTS),
    settings=GameSettings,
    services=(Service(Rooms, _rooms),),
    importers={"equipment": equipment(), "world": world()},
    kinds=(characters.CHARACTER, locations.LOCATION, inventories.STACK, inventories.TRADE),
    pages=(keeping.CHARACTER_PAGES, inventories.STACK_PAGES, inventories.TRADE_PAGES),
    queries=(
        characters.CharacterQuery,
        keeping.KeepingQuery,
        locations.LocationQuery,
        maps.MapQuery,
        inventories.InventoryQuery,
    ),
    mutations=(GameMutation, keeping.KeepingMutation, trading.TradingMutation),
    subscriptions=(events.LocationSubscription, own_events.PlayerSubscription),
    events=(*sources.SOURCES, character_events.CHANGED, trade_events.CHANGED),
    notifications=notices.SOURCES,
    extensions={"Viewer": (characters.CharacterViewer, inventories.TradeViewer)},
    demo=demo.load,
    examples=(
        ("Game", _FOLDER / "examples.graphql"),
        ("Game, live", _FOLDER / "live.graphql"),
        ("Inventories", _FOLDER / "inventories.graphql"),
    ),
)
