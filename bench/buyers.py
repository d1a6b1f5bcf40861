"""Buyers for the shop's bench: their requests, and the timing of a crowd of callers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from statistics import quantiles
from typing import Any, Protocol

from pymongo import MongoClient

from bench.connections import Connections
from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.schema.roles import Role

SECRET = "the bench's own secret, which nobody else has"  # noqa: S105 - the database exists only for minutes
PAYLOADS = {"CartPayload", "CheckoutPayload", "AccountPayload", "StockPayload", "CharacterPayload"}
SECONDS_TO_ANSWER = 120

_SELECTIONS = {
    "createCart": "... on CartPayload { cart { id } }",
    "addItemToCart": "... on CartPayload { cart { total { amount } } }",
    "checkout": "... on CheckoutPayload { order { id } }",
    "restock": "... on StockPayload { product { sku } }",
    "openAccount": "... on AccountPayload { account { id } }",
    "deposit": "... on AccountPayload { account { id } }",
}
_COUNTED = ("aggregate", "delete", "find", "findAndModify", "insert", "update")
_keys = count()


@dataclass(frozen=True)
class Sample:
    """The result of one crowd. Times are in milliseconds. `commands` is the MongoDB commands per operation."""

    clients: int
    operations: int
    rate: float  # operations a second
    p50_ms: float
    p99_ms: float
    commands: float
    refused: int  # operations that did not return a payload


def key() -> str:
    return f"bench-{next(_keys)}"


class Buyer:
    """A signed-in caller."""

    def __init__(self, http: Connections, subject: str) -> None:
        issuer = Authenticator(Settings(jwt_secret=Secret(SECRET)))
        token = issuer.issue(subject, [Role.ADMIN], now=SystemClock().now(), lasts=timedelta(hours=6))
        self._http = http
        self._headers = {"Authorization": f"Bearer {token}"}
        self.account = ""

    async def ask(self, mutation: str, given: dict[str, Any]) -> Any:
        """Send a mutation, and return its union member. Raise RuntimeError for an error."""
        kind = mutation[0].upper() + mutation[1:]
        text = (
            f"mutation ($input: {kind}Input!) {{ {mutation}(input: $input) {{ __typename {_SELECTIONS[mutation]} }} }}"
        )
        body = {"query": text, "variables": {"input": given}}
        answer = await self._http.post("/graphql", body, self._headers)
        if "errors" in answer:
            codes = {error["extensions"]["code"] for error in answer["errors"]}
            # Conflicts with other buyers took too long. A real buyer would retry.
            if codes <= {"CONFLICT", "TIMEOUT"}:
                return {"__typename": "Conflict"}
            raise RuntimeError(str(answer["errors"]))
        return answer["data"][mutation]

    async def must(self, mutation: str, given: dict[str, Any]) -> Any:
        answer = await self.ask(mutation, given)
        if answer["__typename"] not in PAYLOADS:
            raise RuntimeError(f"{mutation} was answered with {answer}")
        return answer

    async def open_account(self, amount: int) -> None:
        self.account = (await self.must("openAccount", {"name": "Bench"}))["account"]["id"]
        paid = {"accountId": self.account, "amount": {"amount": amount}, "idempotencyKey": key()}
        await self.must("deposit", paid)

    async def cart(self, *skus: str) -> str:
        """Create a cart with one unit of each SKU. Return its id."""
        cart = str((await self.must("createCart", {}))["cart"]["id"])
        for sku in skus:
            await self.must("addItemToCart", self.one_of(sku, cart))
        return cart

    @staticmethod
    def one_of(sku: str, cart: str) -> dict[str, Any]:
        return {"cartId": cart, "sku": sku, "quantity": 1}

    def payment_of(self, cart: str) -> dict[str, Any]:
        return {"cartId": cart, "payment": {"accountId": self.account}, "idempotencyKey": key()}


class Caller(Protocol):
    """Someone who sends mutations."""

    async def ask(self, mutation: str, given: dict[str, Any]) -> Any: ...


# The next request of a client: the caller, the mutation and its input.
Operation = tuple[Caller, str, dict[str, Any]]


class Database:
    """The server's own counts and version."""

    def __init__(self, uri: str) -> None:
        self._client: MongoClient[dict[str, Any]] = MongoClient(uri)

    def commands(self) -> int:
        """Return the number of commands on collections that the server has executed."""
        counted = self._client.admin.command("serverStatus")["metrics"]["commands"]
        return sum(int(counted[name]["total"]) for name in _COUNTED)

    def version(self) -> str:
        return str(self._client.server_info()["version"])

    def close(self) -> None:
        self._client.close()


@contextmanager
def watching(uri: str) -> Iterator[Database]:
    database = Database(uri)
    try:
        yield database
    finally:
        database.close()


async def crowd(database: Database, work: Sequence[Sequence[Operation]]) -> Sample:
    """Time clients that run concurrently. Each one sends its operations one after the other."""
    times: list[float] = []
    refused = 0

    async def client(operations: Sequence[Operation]) -> None:
        nonlocal refused
        for caller, mutation, given in operations:
            began = time.perf_counter()
            answer = await caller.ask(mutation, given)
            times.append(time.perf_counter() - began)
            refused += answer["__typename"] not in PAYLOADS

    before, began = database.commands(), time.perf_counter()
    await asyncio.gather(*map(client, work))
    seconds, commands = time.perf_counter() - began, database.commands() - before
    cuts = quantiles(times, n=100, method="inclusive")
    return Sample(
        clients=len(work),
        operations=len(times),
        rate=len(times) / seconds,
        p50_ms=cuts[49] * 1000,
        p99_ms=cuts[98] * 1000,
        commands=commands / len(times),
        refused=refused,
    )


async def run_concurrently(tasks: list[Callable[[], Awaitable[Any]]], at_once: int = 16) -> list[Any]:
    """Run tasks that prepare a measurement, and return their results."""
    slots = asyncio.Semaphore(at_once)

    async def run(task: Callable[[], Awaitable[Any]]) -> Any:
        async with slots:
            return await task()

    return await asyncio.gather(*map(run, tasks))
