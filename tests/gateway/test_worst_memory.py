"""A worker stays below 250 MB, and returns to its size at rest, whatever many clients ask for at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import httpx
import orjson
import pytest

from bench import worst
from portico.gateway.settings import Settings
from tests.gateway.support.large_data import CALLER, fill
from tests.gateway.support.large_operations import ATTACKS, BODIES, Attack
from tests.support.harness import IS_SOAK, GatewayClient, new_key, running
from tests.support.memory import MB, MOST, forget_peak, memory, request, socket_of, unbuffered, wait_until_quiet
from tests.support.processes import Served, environment, eventually, own_database, served
from tests.support.real_data import some
from tests.support.roles import ROLES
from tests.support.sockets import subscribe

CLIENTS = 20 if IS_SOAK else 6
# How many operations each socket sends whose client does not read.
UNREAD = 100 if IS_SOAK else 20
# How many operations each of four sockets sends that wait. Parsed at once, they would exceed `MOST` more than twice.
WAITING = 100 if IS_SOAK else 8
# How many clients stop in the middle of a long body.
STALLED = 200
# The domains whose operations one gateway gets. Rendering the pages of content takes the longest by far.
TOGETHER = [[name] for name in ATTACKS] if IS_SOAK else [[name for name in ATTACKS if name != "content"], ["content"]]
# How much more a worker uses at most when all clients are gone than it used at rest. None of it is in use by Python:
# blocks of small objects stay where one object of each is still used, e.g. of a parsed operation. Twenty clients that
# ask for ads leave 70 MB.
LEFT = (90 if IS_SOAK else 45) * MB
# What an operation may get instead of an answer.
REFUSED = {"ANSWER_TOO_LARGE", "OVERLOADED", "TIMEOUT"}
INVALID = {"GRAPHQL_VALIDATION_FAILED", "GRAPHQL_PARSE_FAILED", "OPERATION_TOO_COMPLEX", "BAD_USER_INPUT"}
SECONDS = 180.0
_VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True)
class Target:
    """A gateway on large data, the token of a caller, and the operations of each domain."""

    settings: Settings
    token: str
    operations: dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Attacked:
    """A gateway that is under attack."""

    served: Served
    token: str

    def request(self, operation: dict[str, Any], **headers: str) -> bytes:
        return request(operation["query"], operation["variables"], Authorization=f"Bearer {self.token}", **headers)

    def peak(self) -> int:
        """Returns the most bytes that the worker has used since it was at rest."""
        return memory(self.served.process.pid, "VmHWM")

    def send(self, operation: dict[str, Any]) -> set[str]:
        """Sends an operation, and reads the answer. Returns the codes of its errors."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        try:
            answer = httpx.post(self.served.graphql, content=orjson.dumps(operation), headers=headers, timeout=SECONDS)
        except httpx.TransportError:
            # While many clients have large answers to read, those that read slowly are disconnected.
            return set()
        found = orjson.loads(answer.content)
        return {error["extensions"]["code"] for error in found.get("errors", ())}


@pytest.fixture(scope="module")
def target(mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with own_database(mongodb_uri, tmp_path_factory.mktemp("settings")) as settings:
        # The clients that stall may send for as long as a busy machine needs.
        quiet = replace(settings, log_level="error", body_seconds=SECONDS)
        yield Target(quiet, *asyncio.run(prepared(quiet)))


async def prepared(settings: Settings) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    """Fills the database. Returns a token with all roles, and the operations of each domain."""
    async with running(replace(settings, jobs=False)) as gateway:
        caller = gateway.as_caller(CALLER, *ROLES)
        known = await fill(caller)
        return caller.token(), {
            name: [operation_of(caller, attack, known) for attack in attacks] for name, attacks in ATTACKS.items()
        }


def operation_of(gateway: GatewayClient, attack: Attack, known: dict[str, Any]) -> dict[str, Any]:
    variables = {name: known[name] for name in _VARIABLE.findall(attack.operation.declared)}
    operation = replace(attack.operation, variables=variables)
    return {"query": operation.text(attack.parts or worst.most(gateway, operation)), "variables": variables}


@pytest.fixture
def attacked(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A new gateway. What it uses at most is asserted after the test, and that it gives it back."""
    with served(tmp_path_factory.mktemp("served"), environment(target.settings), is_new=True) as process:
        for _ in range(5):
            process.ask("{ products { nodes { sku } } }")
        pid = process.process.pid
        at_rest = memory(pid)
        forget_peak(pid)

        attacked = Attacked(process, target.token)
        yield attacked

        peak = attacked.peak()
        assert peak < MOST, f"{peak // MB} MB"
        eventually(lambda: memory(pid) < at_rest + LEFT, 30)
        assert process.ask("{ __typename }").json() == {"data": {"__typename": "Query"}}


def largest(operations: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Returns the operations of all domains whose answers are whole, without those that take the longest."""
    return [operations[name][0] for name in operations if name not in {"content", "introspection", "nodes"}]


# Clients that read


@pytest.mark.timeout(3_600 if IS_SOAK else 120)
@pytest.mark.parametrize("names", TOGETHER, ids="-".join)
def test_the_worst_operations_use_a_bounded_amount_of_memory(
    target: Target, attacked: Attacked, names: Sequence[str]
) -> None:
    """In a soak, each operation alone, and all of them together. Otherwise, a half of those of the domains together."""
    operations = [operation for name in names for operation in some(target.operations[name], 2)]
    rounds = [*([one] * CLIENTS for one in operations if IS_SOAK), operations]

    with ThreadPoolExecutor(CLIENTS) as pool:
        codes = [code for one in rounds for found in pool.map(attacked.send, one) for code in found]

    assert set(codes) <= REFUSED


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", BODIES)
def test_the_worst_bodies_use_a_bounded_amount_of_memory(attacked: Attacked, name: str) -> None:
    text = json.dumps(BODIES[name])
    bodies = [json.loads(text.replace("SLUG", new_key())) for _ in range(CLIENTS)]

    with ThreadPoolExecutor(CLIENTS) as pool:
        codes = {code for found in pool.map(attacked.send, bodies) for code in found}

    assert codes <= REFUSED | INVALID


# Clients that do not read


@pytest.mark.sample(2)
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_unread_answers_use_a_bounded_amount_of_memory(target: Target, attacked: Attacked, accept: str) -> None:
    operations = largest(target.operations)
    with contextlib.ExitStack() as stack:
        for number in range(5 * CLIENTS):
            client = stack.enter_context(unbuffered(attacked.served))
            client.sendall(attacked.request(operations[number % len(operations)], Accept=accept))
        wait_until_quiet(attacked.served, SECONDS)
        assert attacked.peak() < MOST


def test_unread_answers_of_sockets_use_a_bounded_amount_of_memory(target: Target, attacked: Attacked) -> None:
    operations = largest(target.operations)
    with contextlib.ExitStack() as stack:
        for client in [stack.enter_context(socket_of(attacked.served, attacked.token)) for _ in range(4)]:
            for number in range(UNREAD):
                client.send(json.dumps(subscribe(str(number), **operations[number % len(operations)])))
        wait_until_quiet(attacked.served, SECONDS)
        assert attacked.peak() < MOST


# Clients that do not send


def test_messages_that_wait_use_a_bounded_amount_of_memory(attacked: Attacked) -> None:
    variables = {"unused": [{"a": 0}] * 105_000}
    query = "{ products(first: 100) { nodes { description } } }"
    with contextlib.ExitStack() as stack:
        for client in [stack.enter_context(socket_of(attacked.served)) for _ in range(4)]:
            for number in range(WAITING):
                # The client reads nothing, so the operations of its socket wait for each other.
                client.send(orjson.dumps(subscribe(str(number), query, variables=variables)).decode())
        wait_until_quiet(attacked.served, SECONDS)
        assert attacked.peak() < MOST


def test_bodies_that_stall_use_a_bounded_amount_of_memory(attacked: Attacked) -> None:
    whole = request("{ __typename }" + " " * 990_000)
    stalled = whole[:-1_000]
    with contextlib.ExitStack() as stack:
        clients = {stack.enter_context(unbuffered(attacked.served)): stalled for _ in range(STALLED)}
        for client in clients:
            client.setblocking(False)
        for _ in range(20):
            for client, rest in clients.items():
                with contextlib.suppress(BlockingIOError):
                    clients[client] = rest[client.send(rest) :] if rest else rest
            time.sleep(0.05)

        assert attacked.send({"query": "{ products { nodes { sku } } }"}) == set()
        assert attacked.peak() < MOST
        # The query has waited for none of them: the first one still has its room, and the others wait for theirs.
        first, rest = next(iter(clients.items()))
        first.setblocking(True)
        first.sendall(rest + whole[-1_000:])
        assert b"200 OK" in first.recv(4_096)
