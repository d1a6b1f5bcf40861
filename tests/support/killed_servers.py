"""Requests to a gateway in a process of its own, which is killed while it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx

from tests.support.processes import Served

_AT_ONCE = 100


async def answers_until_killed(
    server: Served,
    query: str,
    inputs: Sequence[Any],
    *,
    seconds: float,
    token: str | None = None,
    at_once: int = _AT_ONCE,
    first: bool = False,
) -> list[Any]:
    """Sends the operation with each input, and kills the gateway after this time.

    Args:     first: the time begins with the first answer.
    Returns:  for each input the data of the only field, or None if there was no answer.
    """
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(timeout=20, headers=headers) as client:
        line = asyncio.Semaphore(at_once)

        async def send(given: Any) -> Any:
            body = {"query": query, "variables": {"input": given}}
            async with line:
                try:
                    answer = await client.post(server.graphql, json=body)
                except httpx.TransportError:
                    return None
            (found,) = answer.json()["data"].values()
            return found

        # The first request to a process takes longer than later ones.
        await client.post(server.graphql, json={"query": "{ __typename }"})
        sent = [asyncio.create_task(send(given)) for given in inputs]
        if first:
            await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(server.process.kill)
        return [await one for one in sent]
