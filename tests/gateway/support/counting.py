"""Numbers that are written by some gateways, and read by others: no answer is older than what was acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

import httpx

from portico.resolvers.tasks import end
from tests.gateway.support.gateways import Gateways
from tests.support.harness import MUTATIONS, Answer, category_input, new_key
from tests.support.sockets import until

NAME = "query ($slug: String!) { category(slug: $slug) { name } }"
JAZZ = {"slug": "jazz"}
_UNREACHABLE = {"errors": [{"message": "not reached", "extensions": {"code": "UNAVAILABLE"}}]}


class Asking(Protocol):
    """What sends requests to a gateway."""

    async def ask(self, query: str, variables: Mapping[str, Any] | None = None) -> Answer: ...

    async def result(self, mutation: str, given: dict[str, Any]) -> Any: ...


class Remote:
    """Sends requests to one of some gateways in processes of their own: to another one after it was killed."""

    def __init__(self, gateways: Gateways, number: int, http: httpx.AsyncClient, token: str) -> None:
        self._gateways = gateways
        self._number = number
        self._http = http
        self._headers = {"authorization": f"Bearer {token}"}

    async def ask(self, query: str, variables: Mapping[str, Any] | None = None) -> Answer:
        serving = self._gateways.serving
        url = serving[self._number % len(serving)].graphql
        body = {"query": query, "variables": variables or {}}
        try:
            answer = await self._http.post(url, json=body, headers=self._headers)
        except httpx.TransportError:
            return Answer(503, _UNREACHABLE, {})
        return Answer(answer.status_code, answer.json(), answer.headers)

    async def result(self, mutation: str, given: dict[str, Any]) -> Any:
        return (await self.ask(MUTATIONS[mutation], {"input": given})).data[mutation]


class Counting:
    """Writes numbers to a category's name by several gateways. Notes the last that was acknowledged."""

    def __init__(self, gateways: Sequence[Asking]) -> None:
        self.acknowledged = 0
        self.read_answers = 0
        # Answers that are changed before they are used are kept more and more rarely.
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._gateways = gateways

    async def prepare(self) -> str:
        made = await self._gateways[0].result("createCategory", category_input(slug="jazz", name="0"))
        return str(made["category"]["id"])

    async def write(self, category: str, pause: float = 0.02) -> None:
        for number in range(1, sys.maxsize):
            gateway = self._gateways[number % len(self._gateways)]
            await self.may_write.wait()
            given = {"id": category, "name": str(number), "idempotencyKey": new_key()}
            # During an election, the write is sent again until it is acknowledged.
            while True:
                is_acknowledged = await renamed(gateway, given)
                await asyncio.sleep(pause)
                if is_acknowledged:
                    break
            self.acknowledged = number

    async def read(self, gateway: Asking) -> int:
        """Reads the number. Fails if it is older than one that was acknowledged before."""
        before = self.acknowledged
        answer = await gateway.ask(NAME, JAZZ)
        if answer.codes:
            assert set(answer.codes) <= {"UNAVAILABLE", "TIMEOUT"}
            return before
        number = int(answer.body["data"]["category"]["name"])
        assert number >= before
        self.read_answers += 1
        return number


async def renamed(gateway: Asking, given: dict[str, Any]) -> bool:
    with contextlib.suppress(AssertionError):
        return "category" in await gateway.result("renameCategory", given)
    return False


@contextlib.asynccontextmanager
async def counted(gateways: Sequence[Asking], readers: Sequence[Asking]) -> AsyncIterator[Counting]:
    """Writes by some gateways and reads by others, until the end of the block. Fails if an answer was too old."""
    counting = Counting(gateways)
    category = await counting.prepare()

    async def read(gateway: Asking) -> None:
        while True:
            await counting.read(gateway)
            await asyncio.sleep(0.002)

    tasks = [asyncio.create_task(counting.write(category))]
    tasks += [asyncio.create_task(read(gateway)) for gateway in readers]
    try:
        yield counting
    finally:
        # The driver can swallow a cancellation.
        await end(*tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error


async def go_on(counting: Counting, number: int) -> None:
    """Waits until so many more writes are acknowledged."""
    last = counting.acknowledged + number
    await until(lambda: counting.acknowledged >= last, 90.0)
