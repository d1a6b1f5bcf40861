"""Requests to a gateway in a process of its own, which is killed while it answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import httpx
import pytest

from tests.support.processes import Served

# As many as the client has connections. With thousands of requests in its queue, it takes minutes to fail them all.
_AT_ONCE = 100


class Call(NamedTuple):
    """An operation with its input, if it has one. Without a token, the caller is anonymous."""

    query: str
    given: Any = None
    token: str | None = None

    async def send(self, client: httpx.AsyncClient, server: Served) -> httpx.Response:
        body = {"query": self.query, "variables": {} if self.given is None else {"input": self.given}}
        headers = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
        return await client.post(server.graphql, json=body, headers=headers)


def without_uvloop() -> Any:
    """Returns a fixture: the event loop of the standard library.

    If a server is killed while a client connects, uvloop gives anyio a connection without a socket.
    """

    @pytest.fixture(scope="session")
    def anyio_backend() -> str:
        return "asyncio"

    return anyio_backend


async def responses_until_killed(
    server: Served,
    calls: Sequence[Call],
    rng: random.Random,
    *,
    warm_up: str = "{ __typename }",
    at_once: int = _AT_ONCE,
) -> list[httpx.Response | None]:
    """Sends the calls, and kills the gateway when it has answered some of them, at most half of them.

    After a fixed time, a fast machine would have answered all calls, and a slow one none.

    Args:     warm_up: the first request to the process, which takes longer than later ones.
    Returns:  the response to each call, or None if there was none.
    """
    async with httpx.AsyncClient(timeout=20) as client:
        line, left, answered_enough = asyncio.Semaphore(at_once), rng.randint(1, len(calls) // 2), asyncio.Event()

        async def send(call: Call) -> httpx.Response | None:
            nonlocal left
            async with line:
                try:
                    response = await call.send(client, server)
                except httpx.TransportError:
                    return None
            left -= 1
            if not left:
                answered_enough.set()
            return response

        await Call(warm_up, token=calls[0].token).send(client, server)
        sent = [asyncio.create_task(send(call)) for call in calls]
        await answered_enough.wait()
        server.process.kill()
        return [await one for one in sent]


async def answers_until_killed(server: Served, calls: Sequence[Call], rng: random.Random, **options: Any) -> list[Any]:
    """Sends the calls as `responses_until_killed`. Returns the data of the only field of each, or None."""

    def data_of(response: httpx.Response) -> Any:
        (found,) = response.json()["data"].values()
        return found

    responses = await responses_until_killed(server, calls, rng, **options)
    return [None if one is None else data_of(one) for one in responses]
