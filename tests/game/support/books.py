"""Where everything of the game is, at one moment: the items, the gold and the stacks of a consistent snapshot.

This follows the description of a hand-over, and shares no code with the checks of `portico doctor`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from portico.resolvers.documents import Database, Document

PAUSE = 0.1
COLLECTIONS = ("game.characters", "game.locations", "game.stacks", "game.trades")


@dataclass
class Books:
    """All items with the number of their places, the gold there is, and the gold there was in the beginning."""

    items: Counter[Any] = field(default_factory=Counter)
    gold: int = 0
    initial_gold: int = 0

    def has(self, items: Iterable[Document]) -> None:
        self.items.update(item["_id"] for item in items)

    def assert_whole(self, items: set[Any]) -> None:
        """Asserts that each of these items is in one place, and that no gold is lost or made."""
        assert self.items == dict.fromkeys(items, 1)
        assert self.gold == self.initial_gold


def books_of(characters: Iterable[Document], rooms: Iterable[Document]) -> Books:
    """Adds everything up. What a room has decided about an action counts as soon as the room says so."""
    books = Books()
    actions: dict[Any, Document] = {}
    for character in characters:
        books.has(character["items"])
        books.gold += character["gold"]
        books.initial_gold += character["initial_gold"]
        if "action" in character:
            actions[character["_id"]] = character["action"]
    decided = set()
    for room in rooms:
        books.has(room["items"])
        for keeper in room["keepers"]:
            books.has(keeper["items"])
            books.gold += keeper["gold"]
            books.initial_gold += keeper["initial_gold"]
        for entry in room["characters"]:
            action = actions.get(entry["_id"])
            books.has(entry.get("gifts", ()))
            if action is not None and action["turn"] == entry["turn"]:
                books.has(entry.get("took", ()))
                books.gold += entry.get("gold", 0)
                if room["_id"] == action.get("room"):
                    decided.add(entry["_id"])
    for character_id, action in actions.items():
        if character_id not in decided:
            books.has(action.get("items", ()))
            books.gold += action.get("gold", 0)
    return books


async def snapshot(db: Database) -> dict[str, list[Document]] | None:
    """Reads the collections as of one moment. Returns None if the server could not answer: it was killed, or is new."""
    try:
        async with db.client.start_session(snapshot=True) as session:
            return {name: await db[name].find({}, session=session).to_list() for name in COLLECTIONS}
    except PyMongoError:
        return None


def stacks_out_of_balance(stacks: Iterable[Document], records: Iterable[Document]) -> dict[tuple[str, str], int]:
    """Returns the items of which more or fewer exist than were granted and not consumed, with the difference.

    What a settlement moves is in the notes of its debits until its record is decided, and in the notes of its credits
    afterwards. An offered trade holds what it offers.
    """
    found: Counter[tuple[str, str]] = Counter()
    decided = {}
    for record in records:
        decided[record["_id"]] = {record.get("key"), record.get("decided")}
        if record["state"] == "OFFERED":
            found.update({(one["category"], one["item_id"]): one["quantity"] for one in record["offers"]})
    for stack in stacks:
        item = (stack["category"], stack["item_id"])
        found[item] += stack["quantity"] + stack["consumed"] - stack["granted"]
        for note in stack.get("notes", ()):
            is_decided = note["key"] in decided.get(note["record"], ())
            found[item] += max(note["delta"] if is_decided else -note["delta"], 0)
    return {item: difference for item, difference in found.items() if difference}


@dataclass
class Auditor:
    """Reads snapshots while others write. Every one must have each item once, all the gold and all the stacks.

    Args:     least: goes on until it has checked this many snapshots, also if that takes longer than the writes.
    """

    items: set[Any]
    least: float
    checked: int = 0
    unanswered: int = 0
    in_flight: int = 0
    is_over: bool = False

    async def run(self, db: Database) -> None:
        while not self.is_over or self.checked < self.least:
            await self.check(db)
            await asyncio.sleep(PAUSE)

    async def check(self, db: Database) -> None:
        found = await snapshot(db)
        if found is None:
            self.unanswered += 1
            return
        characters, rooms, stacks, records = (found[name] for name in COLLECTIONS)
        books_of(characters, rooms).assert_whole(self.items)
        assert stacks_out_of_balance(stacks, records) == {}
        self.checked += 1
        self.in_flight += any("action" in one for one in characters) or any(one.get("notes") for one in stacks)


@contextlib.asynccontextmanager
async def auditing(uri: str, database: str, items: set[Any], *, least: float) -> AsyncIterator[Auditor]:
    """Audits the database during the block. Fails if a snapshot is wrong."""
    auditor = Auditor(items, least)
    async with AsyncMongoClient[Document](uri, serverSelectionTimeoutMS=5_000, timeoutMS=10_000) as client:
        db = client[database]
        running = asyncio.create_task(auditor.run(db))
        try:
            yield auditor
        finally:
            # Not cancelled: the driver may report that as a failed command, after which the auditor goes on.
            auditor.is_over = True
            await running
