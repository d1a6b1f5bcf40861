"""The cache of a gateway, and answers that come from it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from portico.gateway.cache.kept_answers import CacheCounts, CachedAnswers

from .harness import GatewayClient
from .sockets import until


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
