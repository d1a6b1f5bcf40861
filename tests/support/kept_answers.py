"""The cache of a gateway, and answers that come from it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.cache import fence as fences
from portico.gateway.cache import kept_answers
from portico.gateway.cache.kept_answers import CacheCounts, CachedAnswers
from portico.gateway.mongo.links import Admits, Link, Reply
from portico.gateway.mongo.pings import Ping
from portico.gateway.settings import Settings

from .harness import GatewayClient, create_category
from .sockets import until

NAME = "query ($slug: String!) { category(slug: $slug) { id name } }"
JAZZ = {"slug": "jazz"}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps queries from running only because the machine is busy."""
    monkeypatch.setattr(fences, "WAIT_SECONDS", 10.0)
    monkeypatch.setattr(kept_answers, "JOIN_SECONDS", 10.0)


def caching(settings: Settings, *, cache_bytes: int = 1_000_000, **changes: Any) -> Settings:
    """Returns the settings with a cache and these changes. Skips the test if its driver has no direct reads."""
    if settings.driver == "motor":
        pytest.skip("the cache needs direct reads")
    return replace(settings, cache_bytes=cache_bytes, **changes)


def with_cache(**changes: Any) -> Any:
    """Returns a fixture: the settings of a test with a cache and these changes."""

    @pytest.fixture
    def settings(settings: Settings) -> Settings:
        return caching(settings, **changes)

    return settings


async def create_jazz(gateway: GatewayClient) -> str:
    """Creates the category that the query `NAME` shows for `JAZZ`. Returns its id."""
    return str((await create_category(gateway, slug="jazz", name="Jazz"))["id"])


def counts_of(gateway: GatewayClient) -> CacheCounts:
    return cache_of(gateway).counts


def cache_of(gateway: GatewayClient) -> CachedAnswers:
    assert gateway.state.cache is not None
    return gateway.state.cache


async def follow_changes(gateway: GatewayClient) -> None:
    """Waits until the change stream of the cache is open. No answer is kept before."""
    await until(lambda: cache_of(gateway).fence.is_open)


async def keep(gateway: GatewayClient, query: str, variables: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """Asks until the answer comes from the cache. Returns it."""
    counts = counts_of(gateway)
    before = counts.hits
    async with asyncio.timeout(20):
        while counts.hits == before:
            answer = await gateway.ask(query, variables, **options)
            # A query that reads nothing gives no other task a turn.
            await asyncio.sleep(0)
    return answer.data


def bound_looks(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets queries run from now on if a look takes long."""
    fence = cache_of(gateway).fence
    monkeypatch.setattr(fences, "WAIT_SECONDS", 0.02)
    if fence._watch is not None:
        fence._watch.cancel()
        fence._watch = None


def hold_pings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Link, bytes]]:
    """Keeps pings from the database. Returns those that were kept, with their links."""
    held: list[tuple[Link, bytes]] = []
    send = Link.send

    def hold(link: Link, message: bytes, deadline: float, reply: Reply, admits: Admits | None = None) -> None:
        if isinstance(reply, Ping):
            link._reply, link._deadline = reply, deadline
            held.append((link, message))
        else:
            send(link, message, deadline, reply, admits)

    monkeypatch.setattr(Link, "send", hold)
    return held
