"""Counts of comments that nobody has finished counting yet."""

from __future__ import annotations

from functools import partial

import pytest

from portico.resolvers.comments.discussions import DOCUMENTS, PAGES
from portico.resolvers.writes.settler import Settler
from tests.catalog.support.cases import id_and_nonce_of
from tests.comments.support.discussions import count, delete, post
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.ids import key_in
from tests.support.moments import meanwhile
from tests.support.settling import Never

ON_LEDGERS = pytest.mark.parametrize("storage", [DOCUMENTS, PAGES])


@ON_LEDGERS
async def test_a_comment_is_counted_before_the_discussion_has_counted_it(
    gateway: GatewayClient, discussion: str
) -> None:
    gateway.state.resources[Settler] = Never()

    root = await post(gateway, discussion)
    reply = await post(gateway, discussion, parent=root["slug"])
    stored = await gateway.stored("discussions", {"_id": key_in("Discussion", discussion)})
    assert (stored["count"], len(stored["under_way"])) == (0, 2)
    assert await count(gateway, discussion) == 2
    await delete(gateway, reply)

    assert await count(gateway, discussion) == 1
    await assert_invariants(gateway)
    await gateway.run_jobs(seconds=31)
    assert await count(gateway, discussion) == 1
    stored = await gateway.stored("discussions", {"_id": key_in("Discussion", discussion)})
    assert (stored["count"], stored["under_way"]) == (1, [])
    await assert_invariants(gateway)


@ON_LEDGERS
async def test_a_post_that_is_not_decided_is_not_counted(gateway: GatewayClient, storage: str, discussion: str) -> None:
    counted: list[int] = []
    collection = "comments" if storage == DOCUMENTS else "comment_keys"

    async def look() -> None:
        counted.append(await count(gateway, discussion))

    with meanwhile(gateway, look, collection, "insert_one"):
        await post(gateway, discussion)

    assert counted == [0]
    assert await count(gateway, discussion) == 1


@ON_LEDGERS
async def test_a_comment_whose_subject_goes_before_it_is_counted_is_removed(
    gateway: GatewayClient, discussion: str
) -> None:
    subject = await gateway.stored("discussions", {"_id": key_in("Discussion", discussion)})
    given = await id_and_nonce_of(gateway, subject["subject"]["key"])

    with meanwhile(gateway, partial(gateway.payload, "deleteProduct", given), "discussions", "bulk_write"):
        await post(gateway, discussion)

    for name in ("comments", "comment_keys", "comment_pages"):
        assert await gateway.db[name].count_documents({}) == 0
    await assert_invariants(gateway)
