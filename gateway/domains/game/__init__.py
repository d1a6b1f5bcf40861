"""The game: rooms, characters and their items, and inventories of any size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from portico.gateway.outages import log_fault
from portico.resolvers.declarations import Domain, Resources, Service
from portico.resolvers.documents import Database, Document
from portico.resolvers.game.inventories import notices, trade_events
from portico.resolvers.game.inventories.stacks import STACKS
from portico.resolvers.game.inventories.trade_bounds import PAIRS
from portico.resolvers.game.inventories.trade_records import TRADES
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.game.world import character_events, gift_notices
from portico.resolvers.game.world import events as sources
from portico.resolvers.game.world.blueprints import BLUEPRINTS
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.gift_records import GIFTS
from portico.resolvers.game.world.locations import LOCATIONS
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.writes.settler import Settler
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.game.inventories import stacks, trade_changes, trading
from portico.schema.game.world import character_changes, characters, events, gifts, keeping, locations, maps
from portico.schema.game.world.acting import GameMutation

from . import demo, setting_limits
from .inventories import upkeep
from .inventories.equipment import equipment
from .world import acting, idling, records

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
    roles=(GAME_MASTER,),
    collections=(CHARACTERS, LOCATIONS, BLUEPRINTS, GIFTS, STACKS, TRADES, PAIRS),
    jobs=(*acting.JOBS, *idling.JOBS, *upkeep.JOBS),
    invariants=(*acting.INVARIANTS, *upkeep.INVARIANTS),
    settings=GameSettings,
    require=setting_limits.require,
    services=(Service(Rooms, _rooms),),
    importers={"equipment": equipment(), "world": records.world()},
    kinds=(characters.CHARACTER, locations.LOCATION, gifts.GIFT, stacks.STACK, stacks.TRADE),
    types=(gifts.Gift,),
    pages=(keeping.CHARACTER_PAGES, stacks.STACK_PAGES, stacks.TRADE_PAGES),
    queries=(
        characters.CharacterQuery,
        keeping.KeepingQuery,
        locations.LocationQuery,
        maps.MapQuery,
        stacks.InventoryQuery,
    ),
    mutations=(GameMutation, keeping.KeepingMutation, trading.TradingMutation),
    subscriptions=(
        events.LocationSubscription,
        character_changes.CharacterSubscription,
        trade_changes.TradeSubscription,
    ),
    events=(*sources.SOURCES, character_events.CHANGED, trade_events.CHANGED),
    notifications=(*gift_notices.SOURCES, *notices.SOURCES),
    extensions={"Viewer": (characters.CharacterViewer, stacks.TradeViewer)},
    demo=demo.load,
    examples=(
        ("Game", _FOLDER / "examples.graphql"),
        ("Game, live", _FOLDER / "live.graphql"),
        ("Inventories", _FOLDER / "inventories.graphql"),
    ),
)
