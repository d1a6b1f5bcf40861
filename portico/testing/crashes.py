"""Crashes between any two commands."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.documents import Database

from .effects import effect_of
from .gateways import Gateway, SettableClock
from .jobs import assert_invariants, run_jobs

# After this time, the idempotency key of a crashed call is free again, and the jobs settle what the call left.
RECOVERY_SECONDS = 31


@contextlib.contextmanager
def database_of(gateway: Gateway, database: Any) -> Iterator[Any]:
    """Gives requests another database during the block."""
    own = gateway.state.database
    gateway.state.database = cast("Database", database)
    try:
        yield database
    finally:
        gateway.state.database = own


@contextlib.contextmanager
def crashing(gateway: Gateway, stop_after: int | None) -> Iterator[FaultyDatabase]:
    """Cuts off the database before the first command after this number of changes, during the block.

    With 0, cuts it off before the first command. With None, never cuts it off.
    """
    with database_of(gateway, FaultyDatabase(gateway.state.database, stop_after)) as faulty:
        yield faulty


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Expects that a job may crash in the block. The job continues with other documents, which all fail."""
    try:
        yield
    except Crash:
        pass
    except ExceptionGroup as failures:
        if failures.split(Crash)[1] is not None:
            raise


Check = Callable[[Mapping[str, Any]], Awaitable[None]]
REPEAT, JOBS = "repeat", "jobs"
RECOVERIES: Sequence[Sequence[str]] = ((REPEAT, JOBS), (JOBS, REPEAT))


async def crash_matrix(
    gateway: Gateway,
    clock: SettableClock,
    mutation: str,
    prepare: Callable[[str], Awaitable[Mapping[str, Any]]],
    *,
    recoveries: Sequence[Sequence[str]] = RECOVERIES,
    check: Check | None = None,
) -> int:
    """Stops a mutation first and after each change, recovers in each way, and checks all invariants after each step.

    A stop elsewhere would leave the same data. A recovery is a sequence of `"repeat"` (the same call with the same key)
    and `"jobs"` (one run of all jobs). A repeated call must return the same union member as one that does not crash,
    and must have the same effect: see `effect_of`.

    Args:     mutation: the text of the operation; select `__typename` on its field.
              prepare: creates new objects for a call, and returns its variables, with the given idempotency key.
              check: gets the variables after each step of a recovery, and makes further assertions.
    Returns:  how many commands the mutation has.
    """
    for recovery in recoveries:
        members: list[Any] = []
        effects: list[Any] = []
        for stop in itertools.count():
            variables = await prepare(f"{'-'.join(recovery)}-{stop}")
            before = await effect_of(gateway)
            with crashing(gateway, stop) as faulty:
                answer = await gateway.ask(mutation, variables)
            if not faulty.has_crashed:
                assert all(found == _members(answer.data) for found in members), (recovery, members, answer.data)
                # What the call has left is now old enough for the jobs, as in a recovery.
                clock.advance(seconds=RECOVERY_SECONDS)
                await run_jobs(gateway, clock)
                expected = (await effect_of(gateway)).since(before)
                assert all(found == expected for found in effects), (recovery, effects, expected)
                break
            members += await _recover(gateway, clock, mutation, variables, recovery, check)
            effects.append((await effect_of(gateway)).since(before))
    assert faulty.commands, "the mutation sends no command"
    return len(faulty.commands)


async def _recover(
    gateway: Gateway,
    clock: SettableClock,
    mutation: str,
    variables: Mapping[str, Any],
    recovery: Sequence[str],
    check: Check | None,
) -> list[Any]:
    """Recovers from a crash, and checks all invariants after each step. Returns what the repeated calls returned."""
    members: list[Any] = []
    for step in recovery:
        clock.advance(seconds=RECOVERY_SECONDS)
        if step == JOBS:
            await run_jobs(gateway, clock)
        else:
            members.append(await _repeat(gateway, mutation, variables, recovery))
        await assert_invariants(gateway)
        if check is not None:
            await check(variables)
    return members


async def _repeat(
    gateway: Gateway, mutation: str, variables: Mapping[str, Any], recovery: Sequence[str]
) -> dict[str, Any]:
    """Repeats a call twice, which must get the same answer. Returns its union members."""
    answers = [await gateway.data(mutation, variables) for _ in range(2)]
    assert answers[0] == answers[1], (recovery, variables, answers)
    return _members(answers[0])


def _members(data: Any) -> dict[str, Any]:
    """Returns the union member that each field returned."""
    return {name: value.get("__typename") if isinstance(value, dict) else value for name, value in data.items()}
