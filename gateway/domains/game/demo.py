"""The demo's world: a town with a temple, a market and a maze. The demo's viewer has a character in the temple.

The viewer, a friend and a shop have inventories, and two trades are open between the viewer and the friend.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from portico.gateway.demo import demo_token
from portico.gateway.demo.loading import OPERATION, Demo
from portico.resolvers.errors import NotFound
from portico.resolvers.game.inventories.stack_imports import StackRecord, import_stack
from portico.resolvers.game.inventories.stacks import Place, Viewer, Wanted
from portico.resolvers.game.inventories.trade_edits import offer_trade
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.game.world import character_reads, creation
from portico.resolvers.game.world.rooms import Rooms

from .inventories.equipment import INVENTORY, OWNER

WORLD = Path(__file__).parent / "data" / "world.jsonl"
NAME, CLASS = "Wren", "wanderer"
_INTRINSICS = {"strength": 12, "dexterity": 14, "intelligence": 13, "charisma": 11}

FRIEND = "mara"
_BAG, _BANK = Place(demo_token.SUBJECT, "bag"), Place(demo_token.SUBJECT, "bank")
_FRIENDS_BAG, _SHOP = Place(FRIEND, "bag"), Place(OWNER, INVENTORY)
_STACKS = (
    StackRecord(_BAG, "food", "rye-bread", "Rye Bread", 6, "Keeps for a week."),
    StackRecord(_BAG, "gem", "amber", "Amber Bead", 12, "A fly sleeps in each of them."),
    StackRecord(_BAG, "herb", "mint", "Sprig of Mint", 15),
    StackRecord(_BAG, "herb", "sage", "Sage Leaf", 30),
    StackRecord(_BAG, "tool", "rope", "Silk Rope", 1, "Fifty feet, and very light."),
    StackRecord(_BANK, "coin", "copper", "Copper Coin", 250),
    StackRecord(_BANK, "gem", "amber", "Amber Bead", 40, "A fly sleeps in each of them."),
    StackRecord(_FRIENDS_BAG, "gem", "opal", "Opal", 5, "Glows in the dark, a little."),
    StackRecord(_FRIENDS_BAG, "scroll", "light", "Scroll of Light", 3),
    StackRecord(_SHOP, "light", "lantern", "Lantern", 20, "Burns for six hours on a pint of oil."),
    StackRecord(_SHOP, "tool", "rope", "Silk Rope", 10, "Fifty feet, and very light."),
    StackRecord(_SHOP, "tool", "tent", "Tent", 4),
)
# Who offers what to whom for what.
_TRADES = (
    (_BAG, _FRIENDS_BAG, Wanted("gem", "amber", 3), Wanted("gem", "opal", 1)),
    (_FRIENDS_BAG, _BAG, Wanted("scroll", "light", 1), Wanted("herb", "mint", 5)),
)


async def load(demo: Demo) -> None:
    """Imports the world, puts the viewer's character into it, and fills the inventories, each once. Idempotent."""
    await demo.load_files("world", [WORLD])
    if not await character_reads.find_by_owner(demo.db, demo_token.SUBJECT, {"_id": 1}):
        # A character that somebody has deleted does not come back.
        with contextlib.suppress(NotFound):
            await creation.create_character(
                demo.db,
                demo.resources.of(Rooms),
                owner=demo_token.SUBJECT,
                name=NAME,
                character_class=CLASS,
                intrinsics=_INTRINSICS,
                gold=demo.resources.of(GameSettings).starting_gold,
                now=demo.now,
                operation_id=f"{OPERATION}character",
            )
    demo.say(f"game: {NAME} is in the world")
    for record in _STACKS:
        await import_stack(demo.db, record, now=demo.now)
    for number, (source, to, offered, wanted) in enumerate(_TRADES):
        await offer_trade(
            demo.db,
            viewer=Viewer(source.owner, is_game_master=False),
            source=source,
            to=to,
            offers=[offered],
            wants=[wanted],
            now=demo.now,
            operation_id=f"{OPERATION}trade.{number}",
        )
    demo.say(f"inventories: {len(_STACKS)} stacks; trades with {FRIEND}: {len(_TRADES)}")
