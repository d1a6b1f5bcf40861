"""Concurrent transfers, some of which crash: the sum of the money is constant, and no balance is negative."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import Any

from portico.gateway.clock import SystemClock
from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.accounts import transfer_jobs
from portico.resolvers.accounts.refusals import InsufficientFunds
from portico.resolvers.documents import Database
from portico.resolvers.errors import Conflict
from tests.accounts.support.accounts import (
    assert_money,
    assert_nothing_in_flight,
    balances,
    deposit,
    deposit_input,
    move,
    open_account,
    transfer_input,
)
from tests.support.harness import IS_SOAK, MUTATIONS, GatewayClient
from tests.support.outcomes import kinds

ACCOUNTS = 50
TRANSFERS = 2_000 if IS_SOAK else 125
AT_ONCE = 64


async def test_concurrent_transfers_succeed_until_the_money_is_spent(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 95), await open_account(gateway.db, owner="another")

    results = await asyncio.gather(*(gateway.result("transfer", transfer_input(mine, theirs, 10)) for _ in range(40)))

    assert kinds(results) == {"TransferPayload": 9, "InsufficientFunds": 31}
    assert await balances(gateway.db, mine, theirs) == [5, 90]
    await assert_money(gateway, 95)


async def test_concurrent_deposits_and_transfers_of_one_account_all_count(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 300), await open_account(gateway.db, 300)

    await asyncio.gather(
        *(deposit(gateway, deposit_input(mine, 7)) for _ in range(20)),
        *(gateway.result("transfer", transfer_input(mine, theirs, 5)) for _ in range(20)),
        *(gateway.result("transfer", transfer_input(theirs, mine, 3)) for _ in range(20)),
    )

    assert await balances(gateway.db, mine, theirs) == [300 + 20 * (7 - 5 + 3), 300 + 20 * (5 - 3)]
    await assert_money(gateway, 740)


async def test_concurrent_transfers_around_a_ring_leave_the_balances_unchanged(gateway: GatewayClient) -> None:
    ring = [await open_account(gateway.db, 1) for _ in range(10)]
    steps = list(zip(ring, [*ring[1:], ring[0]], strict=True))

    for _ in ring:
        results = await asyncio.gather(*(gateway.result("transfer", transfer_input(*step, 1)) for step in steps))
        assert kinds(results) == {"TransferPayload": 10}

    assert await balances(gateway.db, *ring) == [1] * 10
    await assert_money(gateway, 10)


async def test_a_call_that_is_retried_while_the_jobs_run_has_one_effect(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 1_000), await open_account(gateway.db, owner="another")
    calls = [transfer_input(mine, theirs, 1) for _ in range(10)]
    # To the job, every transfer in flight looks as if a crash had left it.
    impatient = gateway.clock.now() + timedelta(minutes=1)

    async def call_off() -> None:
        for _ in range(40):
            await transfer_jobs.finish_transfers(gateway.db, now=impatient)

    async def ask(given: dict[str, Any]) -> str:
        answer = await gateway.ask(MUTATIONS["transfer"], {"input": given})
        return answer.codes[0] if answer.codes else str(answer.data["transfer"]["__typename"])

    outcome = await asyncio.gather(*(ask(given) for given in calls for _ in range(4)), call_off())
    again = [await ask(given) for given in calls]

    assert set(outcome) <= {"TransferPayload", "CONFLICT", None}
    assert again == ["TransferPayload"] * 10
    assert await balances(gateway.db, mine, theirs) == [990, 10]
    await assert_money(gateway, 1_000)


async def test_random_transfers_with_crashes_keep_the_sum_of_the_money(gateway: GatewayClient) -> None:
    rng = random.Random(7)
    ids = [await open_account(gateway.db, 1_000) for _ in range(ACCOUNTS)]
    line = asyncio.Semaphore(AT_ONCE)
    plans: list[tuple[Any, ...]] = [
        (*rng.sample(ids, 2), rng.randrange(1, 900), rng.randrange(10) if rng.random() < 0.3 else None)
        for _ in range(TRANSFERS)
    ]
    outcome: Counter[str] = Counter()
    done = asyncio.Event()

    async def work(number: int) -> None:
        source, destination, amount, stop = plans[number]
        async with line:
            for attempt in (stop, None):
                db: Database = gateway.db if attempt is None else FaultyDatabase.around(gateway.db, attempt)[1]
                outcome[await _transfer(db, source, destination, amount, f"k-{number}.once")] += 1
                if attempt is None or rng.random() < 0.5:
                    return

    async def tidy_up() -> None:
        while not done.is_set():
            await transfer_jobs.finish_transfers(gateway.db, now=SystemClock().now() + timedelta(seconds=6))
            assert all(balance >= 0 for balance in await balances(gateway.db, *ids))
            await asyncio.sleep(0.05)

    async def all_work() -> None:
        await asyncio.gather(*map(work, range(TRANSFERS)))
        done.set()

    await asyncio.gather(all_work(), tidy_up())
    await gateway.run_jobs(seconds=6)

    assert outcome["settled"] > TRANSFERS / 4
    assert min(outcome["crashed"], outcome["refused"]) > TRANSFERS / 20
    await assert_nothing_in_flight(gateway.db)
    await assert_money(gateway, ACCOUNTS * 1_000)


async def _transfer(db: Database, source: str, destination: str, amount: int, operation_id: str) -> str:
    try:
        await move(db, source, destination, amount, operation_id=operation_id, now=SystemClock().now())
    except Crash:
        return "crashed"
    except InsufficientFunds:
        return "refused"
    except Conflict:
        # The job, whose clock is ahead, has cancelled the transfer at each attempt.
        return "called off"
    return "settled"


async def test_the_answers_to_transfers_add_up_to_each_balance(gateway: GatewayClient) -> None:
    rng = random.Random(11)
    ids = [await open_account(gateway.db, 200) for _ in range(6)]
    expected = Counter(dict.fromkeys(ids, 200))

    async def work(number: int) -> None:
        source, destination = rng.sample(ids, 2)
        amount = rng.randrange(1, 150)
        if await _transfer(gateway.db, source, destination, amount, f"k-{number}.once") == "settled":
            expected[source] -= amount
            expected[destination] += amount

    await asyncio.gather(*map(work, range(TRANSFERS // 2)))

    assert await balances(gateway.db, *ids) == [expected[account] for account in ids]
    await assert_money(gateway, 1_200)
