"""Measures how long a post takes to reach each follower who listens to `newsFeedPosted`."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from bench.listeners import Client, Deliveries, subscriber
from bench.processes import HOST

# How many clients connect at the same time.
_CONNECTING = 200
_WARMUP = 2
_LISTEN = "subscription { newsFeedPosted { id by { name } posted commentCount ... on StatusPost { text } } }"
_POST = """
mutation ($input: CreatePostInput!) { createPost(input: $input) { __typename ... on PostPayload { post { id } } } }
"""


@dataclass(frozen=True)
class Sample:
    """Milliseconds from sending a post to its response, and to its deliveries to all subscribers."""

    subscribers: int
    posts: int
    post_ms: float
    p50_ms: float
    p99_ms: float
    slowest_ms: float


class TimedDeliveries(Deliveries):
    """Notes when each delivery arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def arrived(self, count: int) -> None:
        self.times += [time.perf_counter()] * count
        super().arrived(count)


async def measure(port: int, star: str, names: list[str], posts: int, token: Callable[[str], str]) -> Sample:
    """Connect the followers, and let the member post."""
    deliveries = TimedDeliveries()
    clients = await _connect(port, names, token, deliveries)
    headers = {"authorization": f"Bearer {token(star)}"}
    answered: list[float] = []
    arrived: list[float] = []
    async with httpx.AsyncClient(base_url=f"http://{HOST}:{port}", headers=headers, timeout=60) as http:
        for number in range(_WARMUP + posts):
            marker = f"post-{number}-end"
            deliveries.expect(marker.encode(), len(names))
            deliveries.times = []
            begun = time.perf_counter()
            given = {"detail": {"status": {"text": f"A post of ordinary length. {marker}"}}}
            answer = (await http.post("/graphql", json={"query": _POST, "variables": {"input": given}})).json()
            if answer.get("data", {}).get("createPost", {}).get("__typename") != "PostPayload":
                raise RuntimeError(str(answer))
            if number >= _WARMUP:
                answered.append(1e3 * (time.perf_counter() - begun))
            await deliveries.wait()
            if number >= _WARMUP:
                arrived += [1e3 * (at - begun) for at in deliveries.times]
    for client in clients:
        client.transport.abort()
    arrived.sort()
    answered.sort()
    return Sample(
        len(names),
        posts,
        round(answered[len(answered) // 2], 1),
        round(arrived[len(arrived) // 2], 1),
        round(arrived[int(len(arrived) * 0.99)], 1),
        round(arrived[-1], 1),
    )


async def _connect(port: int, names: list[str], token: Callable[[str], str], deliveries: Deliveries) -> list[Client]:
    loop = asyncio.get_running_loop()
    clients: list[Client] = []
    for first in range(0, len(names), _CONNECTING):
        made = [
            subscriber("ws", {"query": _LISTEN}, token(name), deliveries) for name in names[first : first + _CONNECTING]
        ]
        await asyncio.gather(*(loop.create_connection(_factory(one), HOST, port) for one in made))
        await asyncio.gather(*(one.is_ready for one in made))
        clients += made
    return clients


def _factory(client: Client) -> Callable[[], Client]:
    return lambda: client
