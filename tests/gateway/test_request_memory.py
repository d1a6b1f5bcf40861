"""An answered request leaves nothing in memory, even without the garbage collector."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.http import disconnects
from portico.gateway.mongo.links import TooLong
from portico.gateway.settings import Settings
from portico.schema.context import Context
from portico.schema.kinds import Kind
from tests.catalog.support.catalog import add_products, product
from tests.content.support.site import create_page
from tests.social.support.posts import add_members, write_post
from tests.support.harness import MUTATIONS, GatewayClient, category_input, create_category, create_product, running

REQUESTS = 20
PAGE = "{ products(first: 20) { nodes { title categories { name breadcrumbs { name } } } } }"
WALL = "query ($id: ID!) { user(id: $id) { wall { nodes { id by { name } } } } }"
OPERATIONS: dict[str, tuple[str, Any]] = {
    "query": (PAGE, {}),
    "page of visible rows": ("{ viewer { orders { nodes { id } } } }", {}),
    "posts": (WALL, {"id": Kind.encode_id("User", "tester")}),
    "rendered texts": ('{ contentByTag(tag: "read") { nodes { ... on Page { html } } } }', {}),
    "large, so that it waits": ("{ products { nodes { description } } }", {}),
    "query with an error": ("{ products(first: 1000) { nodes { title } } }", {}),
    "refused": ("{ nonsense }", {}),
    "mutation": (MUTATIONS["createCategory"], None),
    "refused mutation": (MUTATIONS["createCategory"], {"input": {"name": "", "slug": "a"}}),
}


@pytest.fixture(params=[True, False], ids=["direct reads", "reads through the driver"])
async def gateway(settings: Settings, request: pytest.FixtureRequest) -> AsyncIterator[GatewayClient]:
    async with running(replace(settings, direct_reads=request.param)) as client:
        yield client


@pytest.fixture
def uncollected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No garbage collection, and the gateway watches every request for a disconnect."""
    monkeypatch.setattr(disconnects, "_WATCH_AFTER_SECONDS", 0)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def contexts() -> int:
    """The number of requests in memory, and of replies that had to wait."""
    return sum(type(found) in {Context, TooLong} for found in gc.get_objects())


@pytest.mark.sample(6)
@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_answered_request_is_freed_at_once(gateway: GatewayClient, name: str) -> None:
    category = await create_category(gateway)
    await create_page(gateway, text="*text*", tags=["read"])
    await add_members(gateway.db, "tester", "bo")
    await write_post(gateway.db, "tester")
    await add_products(gateway.db, [product(description="x" * 20_000) for _ in range(15)])
    for _ in range(3):
        await create_product(gateway, categoryIds=[category["id"]])
    before = contexts()

    text, variables = OPERATIONS[name]
    for _ in range(3):
        await asyncio.gather(*(gateway.ask(text, variables or {"input": category_input()}) for _ in range(REQUESTS)))
    # The watch of the last requests ends in the next iterations of the event loop.
    await asyncio.sleep(0.05)

    assert contexts() - before <= 1
