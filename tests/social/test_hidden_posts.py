"""A page of posts is full, whatever is hidden before it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound
from portico.resolvers.social import post_edits, post_lists, walks
from tests.social.support.post_reads import (
    page_of,
    post_id,
)
from tests.social.support.posts import deliver, later, op, write_post
from tests.social.support.social import circle, join
from tests.support.harness import GatewayClient

pytestmark = pytest.mark.anyio
NEWS = "newsFeed"


async def test_a_full_page_is_shown_whatever_is_hidden_before_it(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    await circle(gateway.db, "bob", "ann")
    await circle(gateway.db, "ann", "cem", name="others")
    shown = [await write_post(gateway.db, "ann", now=later(number)) for number in range(3)]
    for number in range(100):
        await write_post(gateway.db, "ann", audience="SELECTED", circle_names=["others"], now=later(10 + number))
    await deliver(gateway.db, now=later(999))
    # They were sent, as if bob had been in the circle then.
    hidden = await gateway.db["social.posts"].find({"audience": "SELECTED"}).to_list()
    await gateway.db["social.news"].insert_many(
        [
            {"_id": {"post": p["_id"], "of": "bob"}, "of": "bob", "posted": p["posted"], "post": p["_id"], "by": "ann"}
            for p in hidden
        ]
    )
    for name in (NEWS, "wall of ann"):
        gateway.commands.clear()
        page = await page_of(gateway, "bob", name, "id", first=2)
        assert [edge["node"]["id"] for edge in page["edges"]] == [post_id(post) for post in reversed(shown)][:2]
        assert page["pageInfo"]["hasNextPage"]
        # In each of two rounds, a news feed reads one's own posts, too.
        assert len([sent for sent in gateway.commands.names() if sent == "find social.posts"]) <= {NEWS: 7}.get(name, 5)
        rest = await page_of(gateway, "bob", name, "id", first=2, after=page["pageInfo"]["endCursor"])
        assert [edge["node"]["id"] for edge in rest["edges"]] == [post_id(shown[0])]
        assert rest["pageInfo"] == {
            "hasNextPage": False,
            "hasPreviousPage": True,
            "endCursor": rest["edges"][-1]["cursor"],
        }


@pytest.mark.parametrize("name", ["wall of ann", NEWS])
async def test_a_page_behind_hidden_posts_is_full_without_a_post_that_is_deleted_meanwhile(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Every page searches.
    monkeypatch.setattr(post_lists, "_ROUNDS_OF_ALL", 0)
    await join(gateway.db, "ann", "bob")
    await circle(gateway.db, "bob", "ann")
    shown = [await write_post(gateway.db, "ann", now=later(number)) for number in range(4)]
    await deliver(gateway.db, now=later(999))
    find_by_ids = walks.find_by_ids

    async def delete_first(db: Database, ids: Sequence[Any], projection: Document | None) -> dict[Any, Document]:
        # The last read of a search asks for the whole posts.
        if projection is not None and "detail.text" in projection and shown[2]["_id"] in ids:
            with contextlib.suppress(NotFound):
                await post_edits.delete_post(db, post_id=shown[2]["_id"], now=later(9), operation_id=op())
        return await find_by_ids(db, ids, projection)

    monkeypatch.setattr(walks, "find_by_ids", delete_first)
    page = await page_of(gateway, "bob", name, "id ... on StatusPost { text }", first=2)
    assert [edge["node"]["id"] for edge in page["edges"]] == [post_id(shown[3]), post_id(shown[1])]
    assert page["pageInfo"]["hasNextPage"]
