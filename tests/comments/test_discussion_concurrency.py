"""Concurrent writes to one discussion: no comment is lost or duplicated, and every count is right."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from tests.comments.support.discussions import (
    ON_EACH,
    by_time,
    count,
    delete,
    everything,
    fill,
    open_on_product,
    post,
    threaded,
    use_small_pages,
)
from tests.support.harness import GatewayClient, assert_invariants


@ON_EACH
async def test_200_concurrent_posts_are_all_listed(gateway: GatewayClient, discussion: str) -> None:
    roots = [await post(gateway, discussion, f"Root {number}.") for number in range(2)]
    slugs = itertools.cycle([None, roots[0]["slug"], roots[1]["slug"]])

    posted = await asyncio.gather(
        *(post(gateway, discussion, f"{number}", next(slugs), by=f"poster {number}") for number in range(200))
    )

    whole = await everything(gateway, discussion, 33)
    assert whole == threaded(whole)
    assert sorted(row["slug"] for row in whole) == sorted(one["slug"] for one in (*roots, *posted))
    assert sorted(row["text"] for row in whole[:]) == sorted([*map(str, range(200)), "Root 0.", "Root 1."])
    assert await everything(gateway, discussion, 33, order="CHRONOLOGICAL") == sorted(whole, key=by_time)
    assert {row["slug"]: row["replyCount"] for row in whole if row["replyCount"]} == {
        roots[0]["slug"]: 67,
        roots[1]["slug"]: 66,
    }
    assert await count(gateway, discussion) == 202
    await assert_invariants(gateway)


@ON_EACH
async def test_concurrent_posts_edits_and_deletions_are_all_carried_out(
    gateway: GatewayClient, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page holds four comments, so most pages are split while other calls write to them."""
    use_small_pages(monkeypatch, 4)
    rng = random.Random(5)
    discussion = await open_on_product(gateway, storage)
    there = await fill(gateway, discussion, rng, 12)
    edited, gone, parents = there[0:4], there[4:8], there[8:12]
    token = gateway.token("poster", [])

    await asyncio.gather(
        *(post(gateway, discussion, f"New {number}.", rng.choice(parents)["slug"]) for number in range(60)),
        *(post(gateway, discussion, f"Root {number}.") for number in range(20)),
        *(gateway.result("editComment", {"id": one["id"], "text": "Edited."}, token=token) for one in edited * 3),
        *(delete(gateway, one) for one in gone),
    )

    whole = await everything(gateway, discussion, 33)
    assert whole == threaded(whole)
    assert len(whole) == await count(gateway, discussion)
    texts = [row["text"] for row in whole]
    assert sorted(text for text in texts if text.startswith(("New", "Root"))) == sorted(
        [*(f"New {number}." for number in range(60)), *(f"Root {number}." for number in range(20))]
    )
    assert texts.count("Edited.") == 4
    assert {row["slug"] for row in whole if row["deleted"]} <= {one["slug"] for one in gone}
    assert await gateway.db["discussions"].find_one({"under_way": {"$ne": []}}) is None
    await assert_invariants(gateway)


@ON_EACH
async def test_concurrent_deletions_of_comments_and_their_replies_all_succeed(
    gateway: GatewayClient, discussion: str
) -> None:
    parents = [await post(gateway, discussion, f"{number}") for number in range(40)]
    replies = [await post(gateway, discussion, "Reply.", parent["slug"]) for parent in parents]

    answers = await asyncio.gather(
        *(delete(gateway, one) for pair in zip(parents, replies, strict=True) for one in pair)
    )

    assert {answer["__typename"] for answer in answers} == {"CommentPayload"}
    assert await everything(gateway, discussion) == []
    assert await count(gateway, discussion) == 0
    assert await gateway.db["discussions"].find_one({"under_way": {"$ne": []}}) is None
    await assert_invariants(gateway)
