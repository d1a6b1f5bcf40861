"""A client that repeats its call with its key while the database changes its primary."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.harness import MUTATIONS, GatewayClient

# What a client repeats its call after.
RETRYABLE = {"UNAVAILABLE", "TIMEOUT", "OPERATION_UNDER_WAY"}


async def answered(gateway: GatewayClient, mutation: str, given: dict[str, Any]) -> Any:
    """Repeats a call with its key until it succeeds. Returns its payload."""
    while True:
        answer = await gateway.ask(MUTATIONS[mutation], {"input": given})
        if (found := (answer.body.get("data") or {}).get(mutation)) is not None:
            return found
        assert set(answer.codes) <= RETRYABLE, answer.body
        await asyncio.sleep(0.05)
