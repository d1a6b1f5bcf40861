"""Lists whose sort values have several types: every row comes once, in the order of the server."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Timestamp

from portico.resolvers.cursors import Cursors
from portico.resolvers.documents import Database, Document
from portico.resolvers.paging import Listing, Sort, find_page

# Values as documents of other programs can have them: of most types, and the same ones in several documents.
VALUES: list[Any] = [
    None,
    -1,
    Int64(2**40),
    2.5,
    math.inf,
    -math.inf,
    math.nan,
    Decimal128("NaN"),
    Decimal128("3.25"),
    "",
    "a title",
    "ÿ",
    {},
    {"a": 1},
    {"$gt": "no condition", "bytes": b"no text"},
    b"bytes",
    Binary(b"more", 5),
    ObjectId("5f0000000000000000000000"),
    False,
    True,
    datetime(1970, 1, 1),  # noqa: DTZ001 - as the driver returns it, UTC without a zone
    datetime(2026, 1, 1),  # noqa: DTZ001 - same
    Timestamp(1, 2),
    Timestamp(2, 1),
]
SECRET = b"0" * 32


async def fill(db: Database, values: list[Any]) -> None:
    rows: list[Document] = [{"_id": number, "value": value} for number, value in enumerate(values)]
    # Documents without the field sort like null.
    rows += [{"_id": f"row {number}", "value": value} for number, value in enumerate(values[::2])]
    rows += [{"_id": ObjectId()}, {"_id": "without"}]
    await db["rows"].insert_many(rows)
    await db["rows"].create_index([("value", 1), ("_id", 1)])


async def walk(db: Database, sort: Sort, size: int) -> list[Any]:
    """Returns the ids of all rows, page by page, with each position as a client would send it back."""
    listing, cursors, found, after = Listing({}, sort), Cursors(SECRET), [], None
    while True:
        page = await find_page(db["rows"], listing, first=size, after=after, projection=None)
        page.cursors = cursors
        found += [row["_id"] for row in page.documents]
        if not page.has_next:
            return found
        assert page.end_cursor is not None
        after = cursors.decode(listing.binding(), len(sort.keys), page.end_cursor)


@pytest.mark.sample(3)
@pytest.mark.parametrize("direction", [1, -1], ids=["ascending", "descending"])
@pytest.mark.parametrize("paths", [("value",), (), ("kind", "value")], ids=["value", "_id", "kind and value"])
async def test_pages_hold_every_row_of_every_type_once(db: Database, direction: int, paths: tuple[str, ...]) -> None:
    await fill(db, VALUES)
    sort = Sort(tuple((path, direction) for path in paths))
    expected = [row["_id"] async for row in db["rows"].find({}, sort=list(sort.keys))]

    for size in (1, 2, 5):
        assert await walk(db, sort, size) == expected


@pytest.mark.parametrize("direction", [1, -1], ids=["ascending", "descending"])
async def test_the_rows_before_a_page_have_every_type(db: Database, direction: int) -> None:
    await fill(db, VALUES)
    listing = Listing({}, Sort((("value", direction),)))
    rows = await db["rows"].find({}, sort=list(listing.sort.keys)).to_list()

    for number, row in enumerate(rows):
        page = await find_page(db["rows"], listing, first=1, after=listing.sort.key_of(row), projection=None)
        before = await page.rows_before(listing.sort.key_of(row), 100, {"_id": 1})
        assert [one["_id"] for one in before] == [one["_id"] for one in reversed(rows[: number + 1])]


async def test_the_pages_of_mixed_values_are_walks_along_the_index(db: Database) -> None:
    await fill(db, VALUES * 20)
    listing = Listing({}, Sort((("value", -1),)))
    for value in ("a title", 2.5, math.nan, True):
        for query, order in listing.ranges((value, "row 3")):
            plan = await db.command(
                "explain", {"find": "rows", "filter": query, "sort": order, "limit": 3}, verbosity="executionStats"
            )
            assert plan["executionStats"]["totalKeysExamined"] <= 12, (query, plan["queryPlanner"]["winningPlan"])
