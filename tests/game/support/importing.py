"""Imports of small worlds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from portico.gateway.domains.game.world.records import world
from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world.world_imports import room_id
from tests.support.documents import stored
from tests.support.record_imports import import_records

TEMPLE = {"id": "temple", "name": "Temple", "description": "  A cool\nhall.", "exits": {"n": "square"}, "start": 0}
SQUARE = {"id": "square", "name": "Square", "description": "Wide.", "exits": {"S": "temple", "down": "cellar"}}
CELLAR = {"id": "cellar", "name": "Cellar", "description": "Dark.", "exits": {"u": "square"}}
SWORD = {"id": "sword", "name": "short sword", "type": "weapon", "weight": 2.5, "cost": 15, "hands": 1}
CHEST = {"id": "chest", "name": "chest", "type": "CONTAINER", "capacity": 50, "room": "cellar", "contents": ["gem"]}
GEM = {"id": "gem", "name": "gem", "type": "TREASURE", "bonus": 1, "quantity": 3, "description": "gems"}
SMITHY = {
    "id": "smithy",
    "keeper": "Tamsin",
    "room": "square",
    "items": ["sword"],
    "buys": ["weapon"],
    "asks": 1.25,
    "pays": 0.4,
    "gold": 500,
    "copies": 2,
}


WORLD = [SMITHY, CHEST, TEMPLE, SQUARE, GEM, CELLAR, SWORD]


async def run(
    db: Any, tmp_path: Path, *records: Any, start: list[str] | None = None
) -> tuple[Counter[str], dict[int, str]]:
    """Imports the records from a file. Returns how many had each outcome, and why lines were refused."""
    return await import_records(db, world(start or ()), tmp_path, records)


async def room(db: Database, key: str) -> Document:
    return await stored(db, "game.locations", {"_id": room_id(key)})
