"""Transfers and deposits whose records decide their idempotency keys: what later calls with the key find."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from portico.resolvers.writes.idempotency import LEASE
from portico.resolvers.writes.operation_records import OPERATIONS
from portico.schema.roles import Role
from tests.accounts.support.accounts import (
    NOWHERE,
    assert_money,
    assert_nothing_in_flight,
    balances,
    deposit_input,
    open_account,
    transfer_input,
)
from tests.support.harness import MUTATIONS, GatewayClient, category_input
from tests.support.interruptions import crashing, database_of, interrupted
from tests.support.moments import meanwhile

Given = dict[str, Any]
A_DAY = 24 * 3600


@pytest.fixture
def service(gateway: GatewayClient) -> str:
    return gateway.token(roles=[Role.SERVICE, Role.ADMIN])


async def ask(gateway: GatewayClient, service: str, mutation: str, given: Given) -> Any:
    """Returns the union member, or the codes of the errors."""
    answer = await gateway.ask(MUTATIONS[mutation], {"input": given}, token=service)
    return answer.codes or answer.data[mutation]


async def forget_operations(gateway: GatewayClient) -> None:
    """Leaves the state after calls whose process was killed before it stored the records of their operations."""
    await gateway.db[OPERATIONS.name].delete_many({})


async def calls_of(gateway: GatewayClient) -> dict[str, Any]:
    """Returns an input of each kind of call, by the `__typename` of its answer."""
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db, owner="another")
    return {
        "TransferPayload": ("transfer", transfer_input(mine, theirs, 30)),
        "AccountPayload": ("deposit", deposit_input(theirs, 5)),
        "InsufficientFunds": ("transfer", transfer_input(mine, theirs, 1_000)),
        "NotFound": ("transfer", transfer_input(NOWHERE, theirs, 1)),
        "InvalidInput": ("deposit", deposit_input(theirs, 0)),
    }


async def test_a_call_sends_no_record_of_its_operation_before_it_is_decided(
    gateway: GatewayClient, service: str
) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    for mutation, given in (("transfer", transfer_input(mine, theirs)), ("deposit", deposit_input(mine))):
        with crashing(gateway, None) as faulty:
            await ask(gateway, service, mutation, given)

        decided = faulty.changes.index(("transfers", "insert_one"))
        assert {name for name, _ in faulty.changes[:decided]} == {"accounts"}
        assert (OPERATIONS.name, "bulk_write") in faulty.changes[decided:]


@pytest.mark.parametrize(
    "typename", ["TransferPayload", "AccountPayload", "InsufficientFunds", "NotFound", "InvalidInput"]
)
async def test_the_decision_answers_a_repeated_call_without_the_record_of_the_operation(
    gateway: GatewayClient, service: str, typename: str
) -> None:
    mutation, given = (await calls_of(gateway))[typename]
    first = await ask(gateway, service, mutation, given)
    assert first["__typename"] == typename
    held = await gateway.db["accounts"].find({}, sort=[("_id", 1)]).to_list()
    await forget_operations(gateway)

    again = await ask(gateway, service, mutation, given)

    assert again == first
    assert await gateway.db["accounts"].find({}, sort=[("_id", 1)]).to_list() == held
    assert await gateway.db[OPERATIONS.name].count_documents({"state": "done"}) == 1


async def test_a_refusal_stays_after_its_cause_is_gone(gateway: GatewayClient, service: str) -> None:
    mine, theirs = await open_account(gateway.db, 10), await open_account(gateway.db)
    poor, wrong = transfer_input(mine, theirs, 50), transfer_input(mine, theirs, 50, currency="EUR")
    first = [await ask(gateway, service, "transfer", given) for given in (poor, wrong)]
    await ask(gateway, service, "deposit", deposit_input(mine, 100))
    # Nothing changes the currency of an account. If it changed, the reason for the refusals would stay.
    await gateway.db["accounts"].update_many({}, {"$set": {"currency": "EUR"}})
    await forget_operations(gateway)

    again = [await ask(gateway, service, "transfer", given) for given in (poor, wrong)]

    assert [one["__typename"] for one in first] == ["InsufficientFunds", "InvalidInput"]
    assert again == first
    assert await balances(gateway.db, mine, theirs) == [110, 0]
    await assert_nothing_in_flight(gateway.db)


@pytest.mark.parametrize("typename", ["TransferPayload", "AccountPayload", "InsufficientFunds", "NotFound"])
async def test_a_key_belongs_to_one_input_without_the_record_of_the_operation(
    gateway: GatewayClient, service: str, typename: str
) -> None:
    calls = await calls_of(gateway)
    mutation, given = calls[typename]
    await ask(gateway, service, mutation, given)
    held = await gateway.db["accounts"].find({}, sort=[("_id", 1)]).to_list()

    for other, wrong in calls.values():
        if wrong is not given:
            await forget_operations(gateway)
            answer = await ask(gateway, service, other, {**wrong, "idempotencyKey": given["idempotencyKey"]})
            assert answer == ["IDEMPOTENCY_KEY_REUSED"], wrong

    assert await gateway.db["accounts"].find({}, sort=[("_id", 1)]).to_list() == held
    assert await gateway.db["transfers"].count_documents({"call": {"$exists": True}}) == 1


async def test_a_key_of_another_mutation_serves_no_transfer(gateway: GatewayClient, service: str) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    await ask(gateway, service, "createCategory", category_input(idempotencyKey="key"))

    for mutation, given in (("transfer", transfer_input(mine, theirs)), ("deposit", deposit_input(mine))):
        answer = await ask(gateway, service, mutation, {**given, "idempotencyKey": "key"})
        assert answer == ["IDEMPOTENCY_KEY_REUSED"]

    assert await balances(gateway.db, mine, theirs) == [100, 0]
    await assert_nothing_in_flight(gateway.db)


async def test_concurrent_calls_with_one_key_and_other_inputs_have_one_effect(
    gateway: GatewayClient, service: str
) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    calls = [("transfer", transfer_input(mine, theirs, amount)) for amount in (1, 2, 3)]
    calls += [("deposit", deposit_input(mine, amount)) for amount in (4, 5)]

    answers = await asyncio.gather(
        *(ask(gateway, service, name, {**given, "idempotencyKey": "key"}) for name, given in calls)
    )

    assert sorted(map(str, answers))[:-1] == [str(["IDEMPOTENCY_KEY_REUSED"])] * 4
    assert await gateway.db["transfers"].count_documents({"call": {"$exists": True}}) == 1
    await assert_nothing_in_flight(gateway.db)


async def test_an_expired_key_begins_another_operation(gateway: GatewayClient, service: str) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    given = transfer_input(mine, theirs, 10)
    ids = set()
    for day in range(3):
        answers = [await ask(gateway, service, "transfer", given) for _ in range(2)]
        assert answers[0] == answers[1]
        ids.add(answers[0]["transfer"]["id"])
        assert await balances(gateway.db, mine, theirs) == [100 - 10 * (day + 1), 10 * (day + 1)]
        gateway.clock.advance(seconds=A_DAY)
        await forget_operations(gateway)
    assert len(ids) == 3


@pytest.mark.parametrize("is_decided", [True, False])
async def test_a_call_that_a_former_version_has_begun_is_taken_over(
    gateway: GatewayClient, service: str, is_decided: bool
) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    given = transfer_input(mine, theirs, 10)
    first = await ask(gateway, service, "transfer", given)
    gateway.clock.advance(seconds=A_DAY)
    await forget_operations(gateway)
    # A call with an expired key begins like every call of a former version: with a record.
    with crashing(gateway, None) as faulty:
        second = await ask(gateway, service, "transfer", given)
    begun = faulty.changes.index((OPERATIONS.name, "insert_one"))
    assert second != first
    again = {**given, "idempotencyKey": "another"}
    await ask(gateway, service, "transfer", again)
    gateway.clock.advance(seconds=A_DAY)
    await forget_operations(gateway)
    stop = len(faulty.changes) - 1 if is_decided else begun + 1
    with crashing(gateway, stop):
        await gateway.ask(MUTATIONS["transfer"], {"input": again}, token=service)
    (record,) = await gateway.db[OPERATIONS.name].find({}).to_list()
    assert record["state"] == "running"
    await gateway.run_jobs("finish-transfers", seconds=LEASE.total_seconds() + 1)

    answers = [await ask(gateway, service, "transfer", again) for _ in range(2)]

    assert answers[0] == answers[1]
    assert await balances(gateway.db, mine, theirs) == [60, 40]
    await assert_money(gateway, 100)


async def test_repeated_calls_do_not_wait_for_a_lease(gateway: GatewayClient, service: str) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    for stop in range(5):
        given = transfer_input(mine, theirs, 10)
        with crashing(gateway, stop):
            await gateway.ask(MUTATIONS["transfer"], {"input": given}, token=service)

        async with asyncio.timeout(LEASE.total_seconds() / 3):
            answers = [await ask(gateway, service, "transfer", given) for _ in range(3)]

        assert answers[0]["__typename"] == "TransferPayload"
        assert answers == [answers[0]] * 3
        assert await balances(gateway.db, mine, theirs) == [90 - 10 * stop, 10 + 10 * stop]
    await gateway.run_jobs("finish-transfers", seconds=6)
    await assert_money(gateway, 100)


async def test_notes_of_the_same_operation_are_no_reason_to_refuse_it(gateway: GatewayClient, service: str) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    given = transfer_input(mine, theirs, 100)
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        reached.set()
        await asyncio.wait_for(go_on.wait(), 60)

    with database_of(gateway, interrupted(gateway.db, "transfers", "insert_one", pause)):
        paused = asyncio.create_task(ask(gateway, service, "transfer", given))
        await asyncio.wait_for(reached.wait(), 30)

    # The first call holds all the money, until its notes are old.
    waiting = asyncio.create_task(ask(gateway, service, "transfer", given))
    await asyncio.wait({waiting}, timeout=1)
    was_refused = waiting.done()
    gateway.clock.advance(seconds=6)
    later = await waiting
    go_on.set()

    assert not was_refused
    assert later["__typename"] == "TransferPayload"
    assert await paused == later
    assert await balances(gateway.db, mine, theirs) == [0, 100]
    await assert_nothing_in_flight(gateway.db)


async def test_a_refused_call_answers_what_a_concurrent_one_has_decided(gateway: GatewayClient, service: str) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db, currency="EUR")
    given = transfer_input(mine, theirs, 10)

    async def decide() -> None:
        await gateway.db["accounts"].update_many({}, {"$set": {"currency": "USD"}})
        assert (await ask(gateway, service, "transfer", given))["__typename"] == "TransferPayload"

    with meanwhile(gateway, decide, "transfers", "insert_one"):
        answer = await ask(gateway, service, "transfer", given)

    assert answer["__typename"] == "TransferPayload"
    assert await balances(gateway.db, mine, theirs) == [90, 10]
    assert await gateway.db["transfers"].count_documents({"call": {"$exists": True}}) == 1
