"""The change stream of posted comments: exactly one change for each comment."""

from __future__ import annotations

import asyncio

import pytest
from pymongo.read_concern import ReadConcern

from portico.resolvers.comments.posted import MATCH, PATHS, posted_ref
from portico.schema.kinds import Kind
from tests.comments.support.discussions import ON_EACH, delete, editor, open_on_product, post, use_small_pages
from tests.support.harness import GatewayClient


@ON_EACH
async def test_each_posted_comment_is_one_change(
    gateway: GatewayClient, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, 4)
    discussion = await open_on_product(gateway, storage)
    pipeline = [{"$match": MATCH}, {"$project": dict.fromkeys(PATHS, 1)}]
    own = gateway.db.with_options(read_concern=ReadConcern("majority"))
    async with await own.watch(pipeline, max_await_time_ms=500) as changes:
        first = await post(gateway, discussion, "Top.", idempotencyKey="one")
        posted = [first, *[await post(gateway, discussion, f"{n}.", first["slug"]) for n in range(6)]]
        posted += await asyncio.gather(*(post(gateway, discussion, f"Other {n}.") for n in range(6)))
        # None of these calls posts a comment.
        await post(gateway, discussion, "Top.", idempotencyKey="one")
        for one in posted[3:5]:
            await gateway.result("editComment", {"id": one["id"], "text": "Edited."}, token=editor(gateway))
        for one in (first, posted[1], posted[2], posted[9]):
            await delete(gateway, one)

        found = []
        while (change := await changes.try_next()) is not None:
            found.append(Kind.encode_id("Comment", posted_ref(change)))

    assert sorted(found) == sorted(one["id"] for one in posted)
    assert found[:7] == [one["id"] for one in posted[:7]]
