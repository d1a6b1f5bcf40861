"""Reads that name an index also work in a database that lacks it: it is read-only, or the index is being built."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from pymongo.errors import OperationFailure

from bench import worst_network
from bench.network import BEGIN
from bench.threads import put_discussion
from portico.gateway.settings import Settings
from portico.resolvers.analytics.log_events import LOG_EVENTS
from portico.resolvers.comments.buckets import BUCKETS
from portico.resolvers.comments.discussions import PAGES
from portico.resolvers.hints import with_hint
from portico.resolvers.social.relations import RELATIONS
from portico.schema.analytics.analysts import ANALYST
from portico.schema.kinds import Kind
from tests.catalog.support.catalog import add_products, product
from tests.support.harness import GatewayClient, running

COMMENTS = """
query ($id: ID!) {
  node(id: $id) { ... on Discussion { comments(first: 5, order: CHRONOLOGICAL) { nodes { slug text } } } }
}
"""
WALL = "query ($id: ID!) { user(id: $id) { wall(first: 20) { nodes { id } } } }"
COUNTS = '{ pageCounts(from: "2025-01-01T00:00:00Z", to: "2025-01-03T00:00:00Z") { path hits } }'


@pytest.fixture
async def bare(settings: Settings) -> AsyncIterator[GatewayClient]:
    """Yield a gateway on a database of its own, whose indexes a test can drop."""
    database = f"{settings.database}_bare"
    async with running(replace(settings, database=database)) as gateway:
        try:
            yield gateway
        finally:
            await gateway.db.client.drop_database(database)


async def test_comments_on_pages_are_read_without_their_index(bare: GatewayClient) -> None:
    await add_products(bare.db, [product(sku="a")])
    discussion, _ = await put_discussion(bare.db, kind="Product", key="a", storage=PAGES, made=300)
    given = {"id": Kind.encode_id("Discussion", discussion["_id"])}
    expected = await bare.data(COMMENTS, given, token=None)
    assert len(expected["node"]["comments"]["nodes"]) == 5

    await bare.db[BUCKETS.name].drop_indexes()

    assert await bare.data(COMMENTS, given, token=None) == expected


async def test_a_wall_is_read_without_the_indexes_of_relations(bare: GatewayClient) -> None:
    await worst_network.fill(bare.db, 200)
    given, reader = {"id": Kind.encode_id("User", worst_network.STAR)}, bare.token(worst_network.READER)
    expected = await bare.data(WALL, given, token=reader)
    assert len(expected["user"]["wall"]["nodes"]) == 20

    await bare.db[RELATIONS.name].drop_indexes()

    assert await bare.data(WALL, given, token=reader) == expected


async def test_requests_are_counted_without_their_index(bare: GatewayClient) -> None:
    event = {"host": "h", "user": None, "visitor": "h:h", "method": "GET", "path": "/", "status": 200}
    await bare.db[LOG_EVENTS.name].insert_many([{**event, "time": BEGIN + timedelta(minutes=n)} for n in range(3)])
    analyst = bare.token("ann", [ANALYST])
    await bare.db[LOG_EVENTS.name].drop_indexes()

    assert await bare.data(COUNTS, token=analyst) == {"pageCounts": [{"path": "/", "hits": 3}]}


async def test_other_errors_of_a_read_are_not_hidden(bare: GatewayClient) -> None:
    sent = []

    async def read(**options: object) -> None:
        sent.append(options)
        await bare.db["rows"].find({"$unknown": 1}).to_list()

    with pytest.raises(OperationFailure, match=r"\$unknown"):
        await with_hint("any", read)
    assert sent == [{"hint": "any"}]
