"""Counts of comments that nobody has finished counting yet."""

from __future__ import annotations

import pytest

from portico.resolvers.comments.discussions import DOCUMENTS, PAGES
from portico.resolvers.writes.settler import Settler
from portico.schema.kinds import Kind
from tests.comments.support.discussions import count, delete, open_on_product, post
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs
from tests.support.ids import key_in
from tests.support.interruptions import database_of, interrupted
from tests.support.settling import Never

ON_LEDGERS = pytest.mark.parametrize("storage", [DOCUMENTS, PAGES])


@ON_LEDGERS
async def test_a_comment_is_counted_before_the_discussion_has_counted_it(
    gateway: GatewayClient, clock: SettableClock, storage: str
) -> None:
    discussion = await open_on_product(gateway, storage)
    gateway.state.resources[Settler] = Never()

    root = await post(gateway, discussion)
    reply = await post(gateway, discussion, parent=root["slug"])
    stored = await gateway.db["discussions"].find_one({"_id": key_in("Discussion", discussion)})
    assert stored is not None
    assert (stored["count"], len(stored["under_way"])) == (0, 2)
    assert await count(gateway, discussion) == 2
    await delete(gateway, reply)

    assert await count(gateway, discussion) == 1
    await assert_invariants(gateway)
    clock.advance(seconds=31)
    await run_jobs(gateway, clock)
    assert await count(gateway, discussion) == 1
    stored = await gateway.db["discussions"].find_one({"_id": key_in("Discussion", discussion)})
    assert stored is not None
    assert (stored["count"], stored["under_way"]) == (1, [])
    await assert_invariants(gateway)


@ON_LEDGERS
async def test_a_post_that_is_not_decided_is_not_counted(gateway: GatewayClient, storage: str) -> None:
    discussion = await open_on_product(gateway, storage)
    counted: list[int] = []
    collection = "comments" if storage == DOCUMENTS else "comment_keys"

    async def look() -> None:
        counted.append(await count(gateway, discussion))

    db = gateway.db
    with database_of(gateway, interrupted(db, collection, "insert_one", look)):
        await post(gateway, discussion)

    assert counted == [0]
    assert await count(gateway, discussion) == 1


@ON_LEDGERS
async def test_a_comment_whose_subject_goes_before_it_is_counted_is_removed(
    gateway: GatewayClient, storage: str
) -> None:
    discussion = await open_on_product(gateway, storage)
    subject = await gateway.db["discussions"].find_one({"_id": key_in("Discussion", discussion)})
    assert subject is not None
    product = await gateway.db["products"].find_one({"sku": subject["subject"]["key"]})
    assert product is not None
    db = gateway.db

    async def delete_subject() -> None:
        given = {"id": Kind.encode_id("Product", product["sku"]), "nonce": product["nonce"]}
        with database_of(gateway, db):
            assert (await gateway.result("deleteProduct", given))["__typename"] == "DeletedPayload"

    with database_of(gateway, interrupted(db, "discussions", "bulk_write", delete_subject)):
        await post(gateway, discussion)

    for name in ("comments", "comment_keys", "comment_pages"):
        assert await db[name].count_documents({}) == 0
    await assert_invariants(gateway)
