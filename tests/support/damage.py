"""Damages copies of a document in every possible way, and sorts them before the healthy one.

Outside of a soak, each value is missing once, null once, and wrong in half of the other ways. A value of a further
entry of a list, at a path that an earlier entry has, too, is missing or null. Of a large document, these are a sample.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import random
import re
from collections.abc import Iterator
from typing import Any

from bson import ObjectId
from bson.datetime_ms import DatetimeMS
from pymongo.errors import BulkWriteError

from portico.resolvers.documents import Database, Document
from tests.support.harness import IS_SOAK

Path = tuple[str | int, ...]

# Wrong values: one of every type, and a date that Python cannot represent.
WRONG: tuple[Any, ...] = (None, 7, "text", [], [7], {}, {"other": 1}, ObjectId("0" * 24), DatetimeMS(-(10**15)))
# So many copies of a document are damaged outside of a soak.
_SAMPLE = 40
_ID_OF_AN_OPERATION = re.compile(r"[0-9a-f]{16}")


async def damage_in_front(db: Database, collection: str, healthy: Document) -> int:
    """Inserts damaged copies before a healthy document. Each copy lacks one value, or has a wrong one.

    Returns:  the number of damaged copies.
    """
    seen: set[Path] = set()
    damages: list[tuple[int, Path, int]] = []
    for number, path in enumerate(_paths(healthy)):
        shape = tuple(step if isinstance(step, str) else 0 for step in path)
        damages += [(number, path, kind) for kind in _kinds(number, is_repeated=shape in seen)]
        seen.add(shape)
    if not IS_SOAK and len(damages) > _SAMPLE:
        damages = random.Random(1).sample(damages, _SAMPLE)
    copies = [_damaged(_renamed(healthy, f"{number}-{kind}"), path, kind) for number, path, kind in damages]
    await db[collection].delete_one({"_id": healthy["_id"]})
    with contextlib.suppress(BulkWriteError):
        # A unique index may accept only one copy with the same damage.
        await db[collection].insert_many(copies, ordered=False)
    count = await db[collection].count_documents({"_id": {"$in": [one["_id"] for one in copies]}})
    await db[collection].insert_one(healthy)
    return count


def _kinds(number: int, *, is_repeated: bool) -> Iterator[int]:
    """Yields what is wrong with the value of this number: an index of `WRONG`, or its length for a missing value."""
    for kind in range(len(WRONG) + 1):
        if IS_SOAK or kind in {0, len(WRONG)} or (not is_repeated and (number + kind) % 2):
            yield kind


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yields the path of each value of a document, except its `_id`."""
    if path and path[0] != "_id":
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _paths(inner, (*path, key))


def _renamed(healthy: Document, suffix: str) -> Document:
    """Returns a copy of the document with other ids: its own ones and those of its operations, everywhere in it."""
    named = [healthy.get(name) for name in ("_id", "sku", "slug", "discussion", "product")]
    named += [entry.get("id") for entry in healthy.get("under_way", ())]
    named += healthy["_id"].values() if isinstance(healthy["_id"], dict) else ()
    own = {value for value in named if isinstance(value, str | ObjectId)}
    renamed = {name: _with_names(value, own, suffix) for name, value in healthy.items()}
    return {**renamed, "_id": f"!{suffix}"} if isinstance(healthy["_id"], int) else renamed


def _with_names(value: Any, own: set[Any], suffix: str) -> Any:
    if isinstance(value, dict):
        return {key: _with_names(inner, own, suffix) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_names(inner, own, suffix) for inner in value]
    if isinstance(value, ObjectId):
        return _other_id(value, suffix) if value in own else value
    if isinstance(value, str) and (value in own or _ID_OF_AN_OPERATION.search(value)):
        # These strings sort before the healthy document's.
        return f"!{suffix}-{value}"
    return value


def _other_id(key: ObjectId, suffix: str) -> ObjectId:
    return ObjectId("0000" + hashlib.blake2b(f"{key}/{suffix}".encode(), digest_size=10).hexdigest())


def _damaged(document: Document, path: Path, kind: int) -> Document:
    damaged = copy.deepcopy(document)
    inside: Any = damaged
    for step in path[:-1]:
        inside = inside[step]
    if kind == len(WRONG):
        del inside[path[-1]]
    else:
        inside[path[-1]] = WRONG[kind]
    return damaged
