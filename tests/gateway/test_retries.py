"""A write that loses to concurrent writes is retried with pauses, for a limited number of attempts."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from portico.resolvers.documents import Document
from portico.resolvers.errors import NotFound
from portico.resolvers.writes import retries
from portico.resolvers.writes.retries import attempts
from tests.accounts.support.accounts import balances, open_account, transfer_input
from tests.content.support.site import create_page
from tests.shop.support.shop import add_input, new_cart, stock_up
from tests.support.domains import INVARIANTS
from tests.support.harness import MUTATIONS, GatewayClient, SettableClock, create_category
from tests.support.ids import key_in
from tests.support.interruptions import before_every_command, crashing, database_of, interrupted
from tests.support.rooms import ROOT

Given = dict[str, Any]
# The first runs as long as there are listeners. The second waits for the owner of a lease.
ENDLESS = {"resolvers/changes.py:follow", "resolvers/writes/idempotency.py:begin"}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses."""
    monkeypatch.setattr(retries, "_LONGEST_PAUSE", 0.01)


async def test_the_number_of_attempts_is_limited(quick: None) -> None:  # noqa: ARG001
    assert [number async for number in attempts(5)] == [0, 1, 2, 3, 4]


async def test_the_pauses_between_attempts_grow_and_are_random(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    found = [[number async for number in attempts(20, steps=3)] for _ in range(2)]

    assert found == [list(range(20))] * 2
    assert len(pauses) == 2 * 17
    one, other = pauses[:17], pauses[17:]
    assert one != other
    assert all(0.15 <= longest <= 0.45 for longest in (*one[-5:], *other[-5:]))
    assert max(one[0], other[0]) < 0.01


def _endless_loops() -> set[str]:
    found: set[str] = set()
    for file in sorted((ROOT / "resolvers").rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
                loops = [node for node in ast.walk(function) if isinstance(node, ast.While)]
                if any(isinstance(loop.test, ast.Constant) for loop in loops):
                    found.add(f"{file.relative_to(ROOT)}:{function.name}")
    return found


def test_no_write_retries_forever() -> None:
    assert _endless_loops() == ENDLESS


# Writes that always lose


async def _rename(gateway: GatewayClient) -> tuple[str, Given, str, Document]:
    category = await create_category(gateway)
    return "renameCategory", {"id": category["id"], "name": "New"}, "categories", {"deleting": {"op": "another"}}


async def _edit(gateway: GatewayClient) -> tuple[str, Given, str, Document]:
    page = await create_page(gateway)
    given = {"id": page["id"], "nonce": page["nonce"], "text": "New."}
    return "editText", given, "cms.nodes", {"deleting": {"op": "another"}}


async def _restock(gateway: GatewayClient) -> tuple[str, Given, str, Document]:
    sku = await stock_up(gateway)
    return "restock", {"sku": sku, "quantity": 1, "idempotencyKey": "once"}, "stock", {"closed": {"op": "another"}}


async def _reserve(gateway: GatewayClient) -> tuple[str, Given, str, Document]:
    sku = await stock_up(gateway)
    return "addItemToCart", add_input(await new_cart(gateway), sku), "stock", {"closed": {"op": "another"}}


@pytest.mark.sample(2)
@pytest.mark.parametrize("write", [_rename, _edit, _restock, _reserve], ids=lambda write: write.__name__)
@pytest.mark.usefixtures("quick")
async def test_a_write_that_always_loses_is_a_conflict(
    gateway: GatewayClient, write: Callable[[GatewayClient], Awaitable[tuple[str, Given, str, Document]]]
) -> None:
    mutation, given, name, mark = await write(gateway)
    collection = gateway.db[name]
    tries = 0

    async def get_in_the_way() -> None:
        nonlocal tries
        tries += 1
        await collection.update_many({}, {"$set": mark})

    async def get_out_of_the_way() -> None:
        await collection.update_many({}, {"$unset": mark})

    contested = gateway.db
    for method in ("update_one", "find_one_and_update"):
        contested = before_every_command(contested, get_in_the_way, collection=name, method=method)
    for method in ("find", "find_one"):
        contested = before_every_command(contested, get_out_of_the_way, collection=name, method=method)
    with database_of(gateway, contested):
        async with asyncio.timeout(30):
            answer = await gateway.ask(MUTATIONS[mutation], {"input": given})

    assert "Conflict" in str(answer.body) or answer.codes == ["CONFLICT"]
    # An addition to a cart begins with an update that leaves units to others.
    assert tries == retries.ATTEMPTS + (write is _reserve)


# Missing accounts


async def _stopped_transfer(gateway: GatewayClient, stop: int) -> tuple[str, str]:
    source, destination = await open_account(gateway.db, 100), await open_account(gateway.db)
    with crashing(gateway, stop):
        await gateway.ask(MUTATIONS["transfer"], {"input": transfer_input(source, destination)})
    return source, destination


async def _jobs(gateway: GatewayClient, clock: SettableClock) -> list[Exception]:
    clock.advance(seconds=6)
    async with asyncio.timeout(20):
        try:
            await gateway.run_jobs("finish-transfers")
        except ExceptionGroup as failed:
            return list(failed.exceptions)
        except NotFound as error:
            return [error]
    return []


@pytest.mark.sample(2)
@pytest.mark.parametrize("stop", range(2, 6))
@pytest.mark.parametrize("gone", ["source", "destination"])
async def test_a_transfer_ends_and_loses_no_money_if_an_account_is_deleted(
    gateway: GatewayClient, clock: SettableClock, stop: int, gone: str
) -> None:
    source, destination = await _stopped_transfer(gateway, stop)
    transfer = await gateway.db["transfers"].find_one({"source": {"$ne": None}})
    was_committed = transfer is not None and transfer["state"] in {"COMMITTED", "SETTLED"}
    deleted = await gateway.db["accounts"].find_one_and_delete(
        {"_id": key_in("Account", source if gone == "source" else destination)}
    )

    failed = await _jobs(gateway, clock)

    assert deleted is not None
    assert all(isinstance(error, NotFound) and error.kind == "Account" for error in failed)
    if gone == "destination":
        left = await gateway.stored("accounts", {"_id": key_in("Account", source)})
        assert left["balance"] == (90 if was_committed else 100)
        assert left["pending"] == []
        # What was withdrawn stays recorded: the doctor names the transfer.
        found = [problem.text for one in INVARIANTS async for problem in one.check(gateway.db)]
        assert any("does not exist" in text for text in found) == was_committed


async def test_a_transfer_continues_when_its_account_is_restored(gateway: GatewayClient, clock: SettableClock) -> None:
    source, destination = await _stopped_transfer(gateway, 3)
    deleted = await gateway.db["accounts"].find_one_and_delete({"_id": key_in("Account", destination)})
    assert deleted is not None
    await _jobs(gateway, clock)
    await gateway.db["accounts"].insert_one(deleted)

    assert await _jobs(gateway, clock) == []

    assert await balances(gateway.db, source, destination) == [90, 10]


async def test_a_transfer_that_its_destination_cannot_take_is_refunded_before_the_answer(
    gateway: GatewayClient,
) -> None:
    db, source, destination = gateway.db, await open_account(gateway.db, 100), await open_account(gateway.db)

    async def delete() -> None:
        await db["accounts"].delete_one({"_id": key_in("Account", destination)})

    # Before the accounts note the transfer.
    with database_of(gateway, interrupted(db, "accounts", "bulk_write", delete)):
        answer = await gateway.ask(MUTATIONS["transfer"], {"input": transfer_input(source, destination)})

    assert answer.data["transfer"]["__typename"] == "NotFound"
    left = await gateway.stored("accounts", {"_id": key_in("Account", source)})
    assert (left["balance"], left["pending"]) == (100, [])
