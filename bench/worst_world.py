"""The game, the shop, the accounts and the analytics of `bench.worst`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from bson import Int64, ObjectId

from bench import adventurers
from bench.copies import Stored, Template, insert, numbered, without
from bench.network import BEGIN
from portico.resolvers.accounts.accounts import ACCOUNTS, MAX_ACCOUNTS
from portico.resolvers.accounts.transfer_records import TRANSFERS
from portico.resolvers.analytics.hit_counters import HIT_DAYS, HIT_MONTHS, Counter, Series, empty_day, empty_month
from portico.resolvers.analytics.log_events import LOG_EVENTS
from portico.resolvers.analytics.periods import MAX_POINTS, next_start, start_of
from portico.resolvers.analytics.sessions import ROLL_UPS, Period
from portico.resolvers.documents import Database, Document
from portico.resolvers.game.inventories.stacks import STACKS, Place, stack_id
from portico.resolvers.game.inventories.trade_records import MAX_LINES as TRADE_LINES
from portico.resolvers.game.inventories.trade_records import OFFERED, TRADE, TRADES
from portico.resolvers.game.world import characters, locations
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.items import MAX_DEPTH
from portico.resolvers.game.world.locations import LOCATIONS
from portico.resolvers.shop.carts import ACTIVE, CARTS, MAX_LINES
from portico.resolvers.shop.orders import ORDERS, PLACED
from portico.resolvers.shop.stock import STOCK

# Owns what only its owner can see.
PLAYER = "player"
SHOP = Place("npc:shop", "shop")
SERIES = Series("bench", "/")
# The processes that have counted hits, at most.
SLOTS = 4
TRANSFERS_AN_ACCOUNT = 10
# A room that is as full as it can be has about so many objects. A cart has a hundred, but there are not only carts.
_OBJECTS_A_ROOM, _OBJECTS_A_CART = 2_000, 20
# The longest ranges that a caller can ask for.
LONGEST = {
    "MINUTE": ("2025-01-01T00:00:00Z", "2025-01-07T22:40:00Z"),
    "HOUR": ("2025-01-01T00:00:00Z", "2026-02-21T16:00:00Z"),
    "DAY": ("1990-01-01T00:00:00Z", "2017-05-19T00:00:00Z"),
    "MONTH": ("1970-01-01T00:00:00Z", "2199-12-31T00:00:00Z"),
}


def carts(size: int) -> int:
    """Returns how many there are: enough for a list of a hundred ids."""
    return 100 + size // _OBJECTS_A_CART


def full_rooms(size: int) -> int:
    return max(1, size // _OBJECTS_A_ROOM)


async def fill_game(db: Database, size: int, _rng: random.Random) -> dict[str, str]:
    """Stores full rooms and characters, many empty rooms, an inventory of many stacks, and trades."""
    full = full_rooms(size)
    room = _full_room()
    carried = _items(characters.MAX_ITEMS)
    character = {**adventurers.character(PLAYER), "items": carried, "location": locations.copy_of(room)}
    async with asyncio.TaskGroup() as group:
        for documents in (
            (LOCATIONS.name, _copies(room, "room", full)),
            (LOCATIONS.name, _halls(size)),
            (CHARACTERS.name, _characters(character, full)),
            (STACKS.name, _stacks(size)),
            (TRADES.name, _trades(size)),
        ):
            group.create_task(insert(db, *documents))
    return {}


def _full_room() -> Document:
    keepers = [
        adventurers.keeper(number, _items(locations.MAX_KEEPER_ITEMS)) for number in range(locations.MAX_KEEPERS)
    ]
    present = [adventurers.entry(adventurers.character(f"Guest {n}")) for n in range(locations.MAX_CHARACTERS)]
    room = adventurers.room(ObjectId(), [{"direction": name, "to": ObjectId()} for name in locations.DIRECTIONS])
    return {**room, "items": _items(locations.MAX_ITEMS), "characters": present, "keepers": keepers}


def _items(count: int) -> list[Document]:
    """Returns items that are inside each other as deep as they can be."""
    found: list[Document] = []
    for number in range(count):
        inside = found[-1]["_id"] if number % MAX_DEPTH else None
        found.append({**adventurers.item(number), "capacity": 1_000_000, "inside": inside})
    return found


def _copies(document: Document, kind: str, count: int) -> Iterator[Stored]:
    template = without(document, "_id")
    return (template.copy({"_id": numbered(kind, number)}) for number in range(count))


def _halls(size: int) -> Iterator[Stored]:
    """Yields rooms with the most exits, each of which leads to another room."""
    template, ways = without(adventurers.room(ObjectId(), []), "_id", "exits"), len(locations.DIRECTIONS)
    for number in range(size):
        exits = [
            {"direction": name, "to": numbered("hall", (number * ways + nth + 1) % size)}
            for nth, name in enumerate(locations.DIRECTIONS)
        ]
        yield template.copy({"_id": numbered("hall", number), "exits": exits})


def _characters(character: Document, count: int) -> Iterator[Stored]:
    """Yields the most characters of a player, and one of each of many others."""
    template = without(character, "_id", "owner", "number")
    for number in range(max(count, characters.MAX_CHARACTERS)):
        owner = PLAYER if number < characters.MAX_CHARACTERS else f"player-{number}"
        yield template.copy({"_id": numbered("char", number), "owner": owner, "number": number})


def _stacks(size: int) -> Iterator[Stored]:
    shared = {"owner": SHOP.owner, "inventory": SHOP.name, "quantity": 5, "granted": 5, "consumed": 0}
    template = Template({**shared, "description": "A thing. " * 10, "image": "/thing.png", "notes": []})
    for number in range(size):
        category, item_id = f"kind {number % 100}", f"thing-{number}"
        named = {"name": f"Thing {number}", "name_key": f"thing {number}"}
        key = stack_id(SHOP, category, item_id)
        yield template.copy({"_id": key, "category": category, "item_id": item_id, **named})


def _trades(size: int) -> Iterator[Stored]:
    """Yields trades of the player; a hundredth of them are as long as they can be."""
    places = {"from": {"owner": PLAYER, "inventory": "bag"}, "to": {"owner": "other", "inventory": "bag"}}
    shared = {"kind": TRADE, "state": OFFERED, "owners": [PLAYER, "other"], **places}
    for is_long in (False, True):
        count = TRADE_LINES if is_long else 1
        lines = [{"category": "kind", "item_id": f"thing-{nth}", "quantity": 1} for nth in range(count)]
        template = Template({**shared, "offers": lines, "wants": lines})
        for number in range(size // 100 if is_long else size - size // 100):
            created = BEGIN + timedelta(seconds=number)
            yield template.copy({"_id": numbered("deal" if is_long else "swap", number), "created_at": created})


async def fill_shop(db: Database, size: int, _rng: random.Random) -> dict[str, str]:
    """Stores the stock of each product, and carts without an owner and orders of the player with the most lines."""
    lines = [
        {"sku": f"C-{number}", "title": f"Title {number}", "price": 100, "currency": "USD", "quantity": 1}
        for number in range(MAX_LINES)
    ]
    units = {"available": 5, "reserved": 0, "sold": 0, "restocked": 5, "under_way": [], "version": 1}
    stock = Template({**units, "in_stock": True})
    state: Document = {"status": ACTIVE, "currency": "USD", "expires_at": None, "version": 1, "decided": []}
    cart = Template({**state, "owner": None, "items": lines, "last_modified": BEGIN})
    paid = {"cart_id": cart_key(0), "total": 100, "currency": "USD", "payment_reference": "reference"}
    placed = {"status": PLACED, "history": [{"status": PLACED, "at": BEGIN, "op": "checkout"}], "address": None}
    counted = {"version": 1, "fence": 0, "schema_version": ORDERS.version}
    order = Template({**paid, **placed, **counted, "owner": PLAYER, "items": lines})
    await insert(db, STOCK.name, (stock.copy({"_id": f"C-{number}"}) for number in range(size)))
    await insert(db, CARTS.name, (cart.copy({"_id": cart_key(number)}) for number in range(carts(size))))
    await insert(
        db,
        ORDERS.name,
        (
            order.copy({"_id": cart_key(number), "placed_at": BEGIN + timedelta(seconds=number)})
            for number in range(carts(size))
        ),
    )
    return {}


def cart_key(number: int) -> str:
    return f"{number:032x}"


async def fill_accounts(db: Database, size: int, _rng: random.Random) -> dict[str, str]:
    """Stores the most accounts of the player, each with transfers in flight, and one of each of many others."""
    empty = Template({"name": "Savings", "currency": "USD", "balance": 100, "fence": 0, "schema_version": 1})
    await insert(db, ACCOUNTS.name, (_account(empty, number) for number in range(size)))
    moved = {"amount": 1, "currency": "USD", "state": "NEW", "created_at": BEGIN}
    transfer = Template(moved)
    await insert(db, TRANSFERS.name, (_transfer(transfer, number) for number in range(size)))
    return {}


def _account(template: Template, number: int) -> Stored:
    is_ours = number < MAX_ACCOUNTS
    first = number * TRANSFERS_AN_ACCOUNT
    notes = [
        {"id": numbered("move", first + nth), "amount": 1} for nth in range(TRANSFERS_AN_ACCOUNT if is_ours else 0)
    ]
    owner = PLAYER if is_ours else f"owner-{number}"
    return template.copy(
        {
            "_id": numbered("acct", number),
            "owner": owner,
            "pending": notes,
            "created_at": BEGIN + timedelta(seconds=number),
        }
    )


def _transfer(template: Template, number: int) -> Stored:
    source, destination = number // TRANSFERS_AN_ACCOUNT % MAX_ACCOUNTS, MAX_ACCOUNTS + number % 100
    ends = {"source": numbered("acct", source), "destination": numbered("acct", destination)}
    return template.copy({"_id": numbered("move", number), **ends, "owners": [PLAYER, f"owner-{destination}"]})


async def fill_analytics(db: Database, size: int, _rng: random.Random) -> dict[str, str]:
    """Stores log events of one page, its counters of the longest ranges, and a user's roll-ups of the longest range."""
    async with asyncio.TaskGroup() as group:
        for documents in (
            (LOG_EVENTS.name, _log_events(size)),
            (HIT_DAYS.name, _hit_days(MAX_POINTS // 24)),
            (HIT_MONTHS.name, _hit_months(MAX_POINTS // 28)),
            (ROLL_UPS.name, _roll_ups(max(size, MAX_POINTS))),
        ):
            group.create_task(insert(db, *documents))
    return {}


def _log_events(size: int) -> Iterator[Stored]:
    shared = {"host": "10.0.0.1", "user": "user", "visitor": "u:user", "method": "GET", "path": "/", "status": 200}
    template = Template({**shared, "response_size": 1_000, "referrer": None, "user_agent": "A browser"})
    for number in range(size):
        yield template.copy({"_id": numbered("logs", number), "time": BEGIN + timedelta(seconds=number)})


def _hit_days(days: int) -> Iterator[Stored]:
    counted = {"hours": [Int64(60)] * 24, "minutes": [[1] * 60] * 24}
    for day in range(days):
        for slot in range(SLOTS):
            counter = Counter(SERIES.key, start_of("DAY", BEGIN + timedelta(days=day)), slot)
            yield {**empty_day(counter, SERIES), **counted}


def _hit_months(months: int) -> Iterator[Stored]:
    start = datetime(1990, 1, 1)  # noqa: DTZ001 - UTC, as all times here
    for _ in range(months):
        for slot in range(SLOTS):
            yield {**empty_month(Counter(SERIES.key, start, slot), SERIES), "days": [Int64(1)] * 31}
        start = next_start("MONTH", start)


def _roll_ups(size: int) -> Iterator[Stored]:
    """Yields the hours of one user, and then those of others."""
    shared = Template({"level": "HOUR", "parents": [ObjectId()], "sessions": Int64(1), "total": Int64(1_000_000)})
    for number in range(size):
        user = "user" if number < MAX_POINTS else f"user-{number // MAX_POINTS}"
        period = Period(user, "HOUR", start_of("HOUR", BEGIN) + timedelta(hours=number % MAX_POINTS))
        yield shared.copy({"_id": period.key, "user_id": user, "start": period.start, "revision": "0"})
