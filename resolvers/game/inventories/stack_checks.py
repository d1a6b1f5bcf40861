"""Checks that items in stacks and trades are conserved.

For every kind of item, what is there equals what was granted minus what was consumed. What is there: the quantities
of stacks, what OFFERED trades hold, and what the notes of settlements hold (see `exchanges`). This holds at every
moment, so all of it is read as of one point in time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from bson import Decimal128
from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem
from portico.resolvers.snapshots import read_at_one_time

from . import stacks
from .stacks import STACKS, Place
from .trade_records import OFFERED, TRADES

_ITEM = {"category": "$category", "item_id": "$item_id"}
_ZERO = Decimal128("0")
_STACK = Problem.named("stack")
_COUNTERS = ("quantity", "granted", "consumed")
_SHOWN = dict.fromkeys(("owner", "inventory", "category", "item_id", *_COUNTERS), 1)


async def find_unbalanced_items(db: Database) -> AsyncIterator[Problem]:
    """Yields the kinds of items of which there is more or less than was granted and not consumed."""
    stages: list[Document] = [
        _sums("$quantity", {"$subtract": [_decimal("$granted"), _decimal("$consumed")]}),
        {"$unionWith": {"coll": STACKS.name, "pipeline": _noted()}},
        {"$unionWith": {"coll": TRADES.name, "pipeline": _offered()}},
        {"$group": {"_id": "$_id", "found": {"$sum": "$found"}, "expected": {"$sum": "$expected"}}},
        {"$match": {"$expr": {"$ne": ["$found", "$expected"]}}},
    ]
    wrong = await read_at_one_time(db, STACKS, stages, batch_size=1_000)
    for item in sorted(wrong, key=lambda item: str(item["_id"])):
        found, expected = (int(item[name].to_decimal()) for name in ("found", "expected"))
        text = f"there are {found:,}, but {expected:,} were granted and not consumed"
        yield Problem(f"item {item['_id'].get('category')}/{item['_id'].get('item_id')}", text)


def _sums(found: Any, expected: Any) -> Document:
    """Returns the stage that sums by item. The sums are decimals, because 64 bits can be too few for many stacks."""
    sums = {"found": {"$sum": _decimal(found)}, "expected": {"$sum": _decimal(expected)}}
    return {"$group": {"_id": _ITEM, **sums}}


def _decimal(value: Any) -> Document:
    """Returns the value as a decimal, as an expression. What is no number counts as 0."""
    return {"$convert": {"input": value, "to": "decimal", "onError": _ZERO, "onNull": _ZERO}}


def _noted() -> list[Document]:
    """Returns the stages that sum what notes hold: credits of decided keys, and debits of others."""
    keys = ["$record.key", "$record.decided"]
    delta = _decimal("$notes.delta")
    held = {"$max": [0, {"$cond": [{"$in": ["$notes.key", keys]}, delta, {"$subtract": [0, delta]}]}]}
    lookup = {"from": TRADES.name, "localField": "notes.record", "foreignField": "_id", "as": "record"}
    return [
        {"$match": {"notes.at": {"$exists": True}}},
        {"$unwind": "$notes"},
        {"$lookup": lookup},
        {"$set": {"record": {"$ifNull": [{"$first": "$record"}, {}]}}},
        _sums(held, 0),
    ]


def _offered() -> list[Document]:
    offers = {"category": "$offers.category", "item_id": "$offers.item_id"}
    none = {"expected": {"$sum": _decimal(0)}}
    return [
        {"$match": {"state": OFFERED}},
        {"$unwind": "$offers"},
        {"$group": {"_id": offers, "found": {"$sum": _decimal("$offers.quantity")}, **none}},
    ]


async def find_wrong_stacks(db: Database) -> AsyncIterator[Problem]:
    """Yields stacks with an invalid quantity or counter, or whose `_id` is not that of their item."""
    found = db[STACKS.name].find({}, _SHOWN, sort=[("_id", ASCENDING)])
    async for problem in Problem.all_in(found, _wrong_in, _STACK):
        yield problem


async def _wrong_in(batch: list[Document]) -> AsyncIterator[Problem]:
    for stack in batch:
        for name in _COUNTERS:
            if not isinstance(stack[name], int):
                raise TypeError(f"{name!r} is no whole number")
        if not 0 <= stack["quantity"] <= stacks.MAX_QUANTITY:
            yield Problem(_STACK(stack), f"its quantity is {stack['quantity']:,}")
        place = Place(stack["owner"], stack["inventory"])
        if stack["_id"] != stacks.stack_id(place, stack["category"], stack["item_id"]):
            yield Problem(_STACK(stack), "its `_id` is not that of its item")
