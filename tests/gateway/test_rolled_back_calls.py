"""A primary rolls back what a call with an idempotency key has begun. The call has one effect and one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pymongo.write_concern import WriteConcern

from portico.gateway.settings import Settings
from portico.resolvers.accounts.accounts import NOTED
from portico.resolvers.accounts.transfer_records import TRANSFERS
from portico.resolvers.configuration import Secret
from portico.resolvers.writes.operation_records import OPERATIONS
from tests.accounts.support.accounts import (
    assert_nothing_in_flight,
    balances,
    deposit_input,
    open_account,
    transfer_input,
)
from tests.support.harness import MUTATIONS, GatewayClient, running
from tests.support.processes import eventually
from tests.support.replica_sets import TEST_COMMANDS, ReplicaSet, replica_set

# What a client repeats its call after.
RETRYABLE = {"UNAVAILABLE", "TIMEOUT", "OPERATION_UNDER_WAY"}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSet]:
    with replica_set(tmp_path_factory.mktemp("three"), *TEST_COMMANDS) as found:
        yield found


async def answered(gateway: GatewayClient, mutation: str, given: dict[str, Any]) -> Any:
    """Repeat a call with its key until it succeeds, as a client does. Return its payload."""
    while True:
        answer = await gateway.ask(MUTATIONS[mutation], {"input": given})
        if (found := (answer.body["data"] or {}).get(mutation)) is not None:
            return found
        assert set(answer.codes) <= RETRYABLE, answer.body
        await asyncio.sleep(0.05)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("mutation", ["deposit", "transfer"])
async def test_a_call_whose_record_and_notes_are_rolled_back_has_one_effect_and_one_answer(
    settings: Settings, three: ReplicaSet, mutation: str
) -> None:
    own = replace(settings, mongodb_uri=Secret(three.uri), database=f"rolled_back_{mutation}")
    async with running(own) as gateway:
        mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db, 100)
        given = deposit_input(theirs) if mutation == "deposit" else transfer_input(mine, theirs, 100)
        with three.unreplicated() as former, three.client(former) as client:
            rollbacks, there = three.rollbacks(former), client[own.database]

            def has_begun() -> bool:
                noted = there[NOTED.spec.name].find_one({f"{NOTED.path}.0": {"$exists": True}})
                return noted is not None and there[OPERATIONS.name].find_one({}) is not None

            calling = asyncio.create_task(answered(gateway, mutation, given))
            await asyncio.to_thread(eventually, has_begun)
            # Neither is on a majority. So nothing is decided.
            assert await asyncio.to_thread(there[TRANSFERS.name].count_documents, {}) == 2
            # After this, the journal has them.
            there.get_collection("rows", write_concern=WriteConcern(1, j=True)).insert_one({})
            three.kill(former)
        first = await calling
        await asyncio.to_thread(three.restart, former)
        again = await answered(gateway, mutation, given)

        assert three.rollbacks(former) > rollbacks
        assert again == first
        assert await balances(gateway.db, mine, theirs) == [100 if mutation == "deposit" else 0, 200]
        assert await gateway.db[OPERATIONS.name].count_documents({}) == 1
        await assert_nothing_in_flight(gateway.db)
