"""The game: rooms, characters and their items, and inventories of any size."""

from __future__ import annotations

from portico.resolvers.domains import Domain
from portico.resolvers.game.characters import CHARACTERS
from portico.resolvers.game.locations import LOCATIONS
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.game.stacks import STACKS
from portico.resolvers.game.trade_records import TRADES
from portico.schema.game import inventories, trading

from . import stacks
from .equipment import equipment

DOMAIN = Domain(
    name="game",
    about="A world of rooms, its characters and their items.",
    collections=(CHARACTERS, LOCATIONS, STACKS, TRADES),
    jobs=(*stacks.JOBS,),
    invariants=(*stacks.INVARIANTS,),
    settings=GameSettings,
    importers={"equipment": equipment()},
    kinds=(inventories.STACK, inventories.TRADE),
    queries=(inventories.InventoryQuery,),
    mutations=(trading.TradingMutation,),
    extensions={"Viewer": (inventories.TradeViewer,)},
)
