"""Pages of comments in the storage PAGES while comments are about to be posted: paging ends, and shows only posted
comments.
"""

from __future__ import annotations

import random
from typing import Any, cast

import pytest
from bson import ObjectId

from portico.resolvers.comments.comments import CHRONOLOGICAL, listing_of, with_slug
from portico.resolvers.comments.discussions import PAGES
from portico.resolvers.comments.page_storage import KEYS
from portico.resolvers.documents import Database
from portico.resolvers.paging import Page
from tests.comments.support.discussions import below, everything, fill, open_on_product, post, use_small_pages
from tests.support.harness import GatewayClient


async def add_pending(gateway: GatewayClient, rng: random.Random, number: int) -> None:
    """Add keys of comments that are not posted yet, each right before or after the key of a posted comment."""
    rows = await gateway.db[KEYS.name].find({}).to_list()
    parents = {row["_id"]: row for row in rows}
    for row in rng.choices(rows, k=number):
        key = ObjectId()
        parent = parents.get(row["parent"])
        above = None if parent is None else {"slug": parent["slug"], "key": parent["key"]}
        await gateway.db[KEYS.name].insert_one(with_slug({**row, "_id": key}, above, rng.randrange(9)))


@pytest.mark.parametrize("seed", range(2))
async def test_paging_skips_comments_that_are_not_posted_yet(gateway: GatewayClient, seed: int) -> None:
    rng = random.Random(seed)
    discussion = await open_on_product(gateway, PAGES)
    top = await post(gateway, discussion, "Top.")
    posted = [top, *[await post(gateway, discussion, f"{n}", rng.choice([None, top["slug"]])) for n in range(7)]]
    texts = sorted(row["text"] for row in posted)
    await add_pending(gateway, rng, 20)

    for size in (1, 2, 3, 100):
        for variables in ({"order": "CHRONOLOGICAL"}, {"maxDepth": 3}, {"order": "CHRONOLOGICAL", "maxDepth": 1}, {}):
            rows = await everything(gateway, discussion, size, **variables)
            assert sorted(row["text"] for row in rows) == texts, (size, variables)
        replies = await below(gateway, discussion, top["slug"], "replies", size)
        assert len(replies) == sum(row["depth"] for row in posted)


class _Unordered:
    """A database that returns the results of `$unionWith` in another order: MongoDB does not guarantee any."""

    def __init__(self, database: Any) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> _UnorderedCollection:
        return _UnorderedCollection(self._database[name])


class _UnorderedCollection:
    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    async def aggregate(self, stages: list[dict[str, Any]], **options: Any) -> Any:
        is_union = any("$unionWith" in stage for stage in stages)
        return await self._collection.aggregate([*stages, {"$sort": {"low": -1}}] if is_union else stages, **options)


async def test_a_page_of_threads_is_sorted_whatever_the_order_of_its_parts(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, 8)
    discussion = await open_on_product(gateway, PAGES)
    await fill(gateway, discussion, random.Random(3), 36)
    rows = await everything(gateway, discussion)

    monkeypatch.setattr(gateway.state, "reading", cast("Database", _Unordered(gateway.state.reading)))
    again = [await everything(gateway, discussion, size) for size in (3, 26, 30)]

    assert again == [rows] * 3


async def test_a_list_whose_comments_are_all_pending_is_empty(gateway: GatewayClient) -> None:
    discussion = await open_on_product(gateway, PAGES)
    await post(gateway, discussion)
    await add_pending(gateway, random.Random(0), 5)
    await gateway.db["comment_pages"].update_one({}, {"$set": {"comments": [], "count": 0}})

    assert await everything(gateway, discussion, 1, order="CHRONOLOGICAL") == []


async def test_a_page_with_a_next_page_must_have_a_row_to_continue_from(db: Database) -> None:
    listing = listing_of(PAGES, ObjectId(), order=CHRONOLOGICAL, max_depth=None)

    with pytest.raises(ValueError, match="must have a row"):
        Page(listing, db[KEYS.name], [], has_next=True)
    assert Page(listing, db[KEYS.name], [], has_next=False).documents == []
