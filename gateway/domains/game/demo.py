"""The demo's world: a town with a temple, a market and a maze. The demo's viewer has a character in the temple."""

from __future__ import annotations

from pathlib import Path

from portico.gateway.demo import demo_token
from portico.gateway.demo.loading import OPERATION, Demo
from portico.resolvers.game import characters, creation
from portico.resolvers.game.combining import Rooms
from portico.resolvers.game.settings import GameSettings

WORLD = Path(__file__).parent / "data" / "world.jsonl"
NAME, CLASS = "Wren", "wanderer"
_INTRINSICS = {"strength": 12, "dexterity": 14, "intelligence": 13, "charisma": 11}


async def load(demo: Demo) -> None:
    """Imports the world, and puts the viewer's character into it once. Idempotent."""
    await demo.load_files("world", [WORLD])
    if not await characters.find_by_owner(demo.db, demo_token.SUBJECT, {"_id": 1}):
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
