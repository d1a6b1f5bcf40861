"""The stored documents have the keys and the types that their collections declare.

The tests of idempotency check the same after each mutation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from portico.resolvers.persisted_queries import persist_query
from portico.resolvers.shared_secrets import shared_secret
from portico.resolvers.social.posts import PAGE
from portico.resolvers.writes import leases
from portico.testing.kits import Left
from portico.testing.stages import Stage
from tests.social.support.posts import write_comment, write_post
from tests.social.support.social import join
from tests.support.demo import Demo
from tests.support.domains import COLLECTIONS
from tests.support.everything import create_everything
from tests.support.harness import GatewayClient, SettableClock
from tests.support.kits import kits
from tests.support.stored import assert_typed

STAGES = [pytest.param(stage, id=f"{name}: {stage.__name__}") for name, kit in kits().items() for stage in kit.stages]
LEAVING = [
    pytest.param(leave, id=f"{job}: {leave.__name__}")
    for kit in kits().values()
    for job, leaves in kit.leftovers.items()
    for leave in leaves
]
# The collections that the demo, the kits and the jobs leave empty, and where they are compared.
NOT_CREATED = {
    "ads.clicks": "ads/test_clicks: a click that is followed",
    "ads.profiles": "test_idempotency: `serveAds`",
    "game.gifts": "test_idempotency: `give`",
    "intents": "below: what crashes leave",
    "leases": "below: the shared collections",
    "persisted_queries": "below: the shared collections",
    "secrets": "below: the shared collections",
    "social.comment_pages": "below: a post with many comments",
    "social.rates": "test_idempotency: `createPost`",
}


def test_every_collection_declares_the_type_of_its_documents() -> None:
    assert [spec.name for spec in COLLECTIONS if spec.document is None] == []


async def test_the_demo_and_what_the_kits_create_are_stored_as_typed(
    gateway: GatewayClient, loaded_demo: Demo, mongodb_uri: str
) -> None:
    await create_everything(gateway)
    await gateway.run_jobs()

    met = await assert_typed(gateway.db)
    async with AsyncMongoClient[dict[str, Any]](mongodb_uri) as client:
        met |= await assert_typed(client[loaded_demo.database])

    assert " ".join(sorted({spec.name for spec in COLLECTIONS} - met)) == " ".join(NOT_CREATED)


async def test_the_shared_collections_are_stored_as_typed(gateway: GatewayClient, clock: SettableClock) -> None:
    now = clock.now()
    await leases.acquire(gateway.db, "job", owner="worker", now=now, duration=timedelta(minutes=1))
    await persist_query(gateway.db, "0" * 64, "{ __typename }", now=now, most=10)
    await shared_secret(gateway.db, "cursors")

    assert await assert_typed(gateway.db) >= {"leases", "persisted_queries", "secrets"}


async def test_a_post_with_many_comments_is_stored_as_typed(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann")
    post = await write_post(gateway.db, "ann")
    for _ in range(3 * PAGE):
        await write_comment(gateway.db, post, "ann")

    assert "social.comment_pages" in await assert_typed(gateway.db)


@pytest.mark.sample(6)
@pytest.mark.parametrize("leave", LEAVING)
async def test_what_a_crash_leaves_is_stored_as_typed(
    gateway: GatewayClient, leave: Callable[[GatewayClient], Awaitable[Left]]
) -> None:
    await leave(gateway)

    assert await assert_typed(gateway.db)


@pytest.mark.sample(3)
@pytest.mark.parametrize("stage", STAGES)
async def test_a_stage_is_stored_as_typed(gateway: GatewayClient, clock: SettableClock, stage: type[Stage]) -> None:
    await stage(gateway, clock).build()

    assert await assert_typed(gateway.db)
