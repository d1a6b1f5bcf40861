"""A primary rolls back what a call with an idempotency key has begun. The call has one effect and one answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pymongo.write_concern import WriteConcern

from portico.gateway.settings import Settings
from portico.resolvers.accounts.accounts import NOTED
from portico.resolvers.accounts.transfer_records import TRANSFERS
from portico.resolvers.configuration import Secret
from portico.resolvers.writes.operation_records import OPERATIONS
from tests.accounts.support.accounts import assert_nothing_in_flight, deposit_input, open_account, transfer_input
from tests.gateway.support.fixtures import nodes_with
from tests.gateway.support.retrying import answered
from tests.support.harness import GatewayClient, running
from tests.support.interruptions import database_of, interrupted
from tests.support.pausing import Pause
from tests.support.processes import eventually
from tests.support.replica_sets import TEST_COMMANDS, ReplicaSet

three = nodes_with(*TEST_COMMANDS)


@contextlib.contextmanager
def rolled_back(three: ReplicaSet) -> Iterator[Callable[[Callable[[Any], bool]], None]]:
    """Yields a function that kills the primary when what it finds there is in its journal and on no other node.

    The killed node returns at the end, and must have rolled back what it had alone.
    """
    with three.unreplicated() as former, three.client(former) as client:
        rollbacks = three.rollbacks(former)

        def kill_when(has_begun: Callable[[Any], bool]) -> None:
            eventually(lambda: has_begun(client))
            # After this, the journal has it.
            client["journal"].get_collection("rows", write_concern=WriteConcern(1, j=True)).insert_one({})
            three.kill(former)

        yield kill_when
    three.restart(former)
    assert three.rollbacks(former) > rollbacks


async def assert_one_effect(gateway: GatewayClient, mutation: str, given: dict[str, Any], first: Any) -> None:
    again = await answered(gateway, mutation, given)
    assert again == first
    held = [account["balance"] async for account in gateway.db[NOTED.spec.name].find({})]
    assert sorted(held) == [100 if mutation == "deposit" else 0, 200]
    assert await gateway.db[TRANSFERS.name].count_documents({}) == 3
    assert await gateway.db[OPERATIONS.name].count_documents({}) == 1
    await assert_nothing_in_flight(gateway.db)


async def input_of(gateway: GatewayClient, mutation: str) -> dict[str, Any]:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db, 100)
    return deposit_input(theirs) if mutation == "deposit" else transfer_input(mine, theirs, 100)


@pytest.mark.timeout(240)
@pytest.mark.sample(2)
@pytest.mark.parametrize("mutation", ["deposit", "transfer"])
async def test_a_call_whose_notes_are_rolled_back_has_one_effect_and_one_answer(
    settings: Settings, three: ReplicaSet, mutation: str
) -> None:
    own = replace(settings, mongodb_uri=Secret(three.uri), database=f"noted_{mutation}")

    def has_begun(there: Any) -> bool:
        data = there[own.database]
        return data[NOTED.spec.name].find_one({f"{NOTED.path}.0": {"$exists": True}}) is not None

    async with running(own) as gateway:
        given = await input_of(gateway, mutation)
        with rolled_back(three) as kill_when:
            calling = asyncio.create_task(answered(gateway, mutation, given))
            await asyncio.to_thread(kill_when, has_begun)
        first = await calling

        await assert_one_effect(gateway, mutation, given, first)


@pytest.mark.timeout(240)
@pytest.mark.sample(2)
@pytest.mark.parametrize("mutation", ["deposit", "transfer"])
async def test_a_call_whose_decision_is_rolled_back_has_one_effect_and_one_answer(
    settings: Settings, three: ReplicaSet, mutation: str
) -> None:
    own = replace(settings, mongodb_uri=Secret(three.uri), database=f"decided_{mutation}")
    pause = Pause()

    def has_decided(there: Any) -> bool:
        found: int = there[own.database][TRANSFERS.name].count_documents({"call": {"$exists": True}})
        return found == 1

    async with running(own) as gateway:
        given = await input_of(gateway, mutation)
        with database_of(gateway, interrupted(gateway.db, TRANSFERS.name, "insert_one", pause)):
            calling = asyncio.create_task(answered(gateway, mutation, given))
            await asyncio.wait_for(pause.reached.wait(), 30)
        with rolled_back(three) as kill_when:
            pause.go_on.set()
            await asyncio.to_thread(kill_when, has_decided)
        first = await calling

        await assert_one_effect(gateway, mutation, given, first)
