"""Accounts compared with a model: deposits, transfers, crashes and job runs in any order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from portico.schema.roles import Role
from tests.accounts.support.accounts import assert_nothing_in_flight, balances, open_account
from tests.support.harness import MUTATIONS, GatewayClient, assert_invariants
from tests.support.interruptions import crashing
from tests.support.machines import Machine, examples, step_lists

# The most crashes that may be unsettled at once: each doubles the number of possible states.
MAX_CRASHES = 3
ACCOUNTS = 3
OUTSIDE = -1


@dataclass(frozen=True)
class Call:
    """A transfer between accounts, given by their numbers. A transfer from OUTSIDE is a deposit."""

    key: str
    source: int
    destination: int
    amount: int

    @property
    def mutation(self) -> str:
        return "deposit" if self.source == OUTSIDE else "transfer"


@dataclass(frozen=True)
class State:
    """The balance of each account, and the keys of the calls that have had an effect."""

    balances: tuple[int, ...]
    done: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Step:
    """The next action of the machine, as choices among the objects that exist by then."""

    action: str
    source: int
    destination: int
    amount: int
    stop: int


def carried_out(state: State, call: Call) -> tuple[str, State]:
    """Return the answer to the call, and the state after it."""
    if call.source == call.destination:
        return "InvalidInput", state
    if call.source != OUTSIDE and state.balances[call.source] < call.amount:
        return "InsufficientFunds", state
    found = list(state.balances)
    found[call.destination] += call.amount
    if call.source == OUTSIDE:
        return "AccountPayload", State(tuple(found), state.done | {call.key})
    found[call.source] -= call.amount
    return "TransferPayload", State(tuple(found), state.done | {call.key})


def is_done(answer: str) -> bool:
    return answer in {"AccountPayload", "TransferPayload"}


@dataclass
class Transfers(Machine):
    """A gateway and the set of states that its accounts may be in."""

    accounts: list[str]
    possible: set[State] = field(default_factory=lambda: {State((0,) * ACCOUNTS)})
    crashed: list[Call] = field(default_factory=list)
    # Why a call that crashed may have been refused for good, by its key.
    refusals: dict[str, set[str]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def next_call(self, step: Step) -> Call:
        return Call(f"key-{next(self.numbers)}", step.source, step.destination, step.amount)

    async def ask(self, call: Call) -> Any:
        given: dict[str, Any] = {"amount": {"amount": call.amount}, "idempotencyKey": call.key}
        destination = self.accounts[call.destination]
        if call.source == OUTSIDE:
            given["accountId"] = destination
        else:
            given |= {"sourceId": self.accounts[call.source], "destinationId": destination}
        token = self.gateway.token(roles=[Role.SERVICE])
        return await self.gateway.ask(MUTATIONS[call.mutation], {"input": given}, token=token)

    async def typename_of(self, call: Call) -> str:
        return str((await self.ask(call)).data[call.mutation]["__typename"])

    async def call(self, step: Step) -> None:
        call = self.next_call(step)
        self.learn(call, await self.typename_of(call))

    def learn(self, call: Call, result: str) -> None:
        """Drop the states that contradict the answer. Money in flight cannot be spent, so a refusal proves nothing
        while a crash is unsettled.
        """
        if not self.crashed or is_done(result):
            self.possible = {
                after for answer, after in (carried_out(s, call) for s in self.possible) if answer == result
            }
        assert self.possible, (call, result)

    async def crash(self, step: Step) -> None:
        if len(self.crashed) == MAX_CRASHES:
            return
        call = self.next_call(step)
        with crashing(self.gateway, step.stop) as faulty:
            answer = await self.ask(call)
        if faulty.has_crashed:
            self.refusals[call.key] = self.refusals_of(call)
            self.crashed.append(call)
            self.possible |= {carried_out(state, call)[1] for state in self.possible}
        else:
            self.learn(call, str(answer.data[call.mutation]["__typename"]))

    def refusals_of(self, call: Call) -> set[str]:
        answers = {carried_out(state, call)[0] for state in self.possible}
        if self.crashed and call.source != OUTSIDE:
            answers.add("InsufficientFunds")
        return {answer for answer in answers if not is_done(answer)}

    async def repeat(self, step: Step) -> None:
        """Retry a crashed call with its key, once the key is free."""
        if not self.crashed:
            return
        call = self.crashed.pop(step.source % len(self.crashed))
        self.clock.advance(seconds=31)

        result = await self.typename_of(call)

        # If the call was carried out before, it is not carried out again.
        outcomes = [(state, *carried_out(state, call)) for state in self.possible]
        kept = {after for state, answer, after in outcomes if answer == result and call.key not in state.done}
        if is_done(result):
            kept |= {state for state in self.possible if call.key in state.done}
        elif self.crashed or result in self.refusals[call.key]:
            kept |= {state for state in self.possible if call.key not in state.done}
        self.possible = kept
        assert self.possible, (call, result)

    async def settle(self) -> None:
        """Assert that the stored state is a possible one, and drop the others."""
        found = tuple(await balances(self.gateway.db, *self.accounts))
        self.possible = {state for state in self.possible if state.balances == found}
        assert self.possible, found
        self.crashed = []
        await assert_nothing_in_flight(self.gateway.db)
        await assert_invariants(self.gateway)


SOME = st.integers(0, ACCOUNTS - 1)
STEPS = st.builds(
    Step,
    action=st.sampled_from(["call", "call", "crash", "crash", "repeat", "jobs", "crash jobs"]),
    source=st.integers(OUTSIDE, ACCOUNTS - 1),
    destination=SOME,
    amount=st.integers(1, 30),
    stop=st.integers(0, 10),
)


@examples()
@given(steps=step_lists(STEPS))
async def test_the_balances_match_the_model_after_any_crashes(gateway: GatewayClient, steps: list[Step]) -> None:
    for collection in ("accounts", "transfers", "operations"):
        await gateway.db[collection].delete_many({})
    machine = Transfers(gateway, gateway.clock, [await open_account(gateway.db) for _ in range(ACCOUNTS)])

    for step in steps:
        await machine.take(step)

    await machine.jobs(steps[0])
    assert tuple(await balances(gateway.db, *machine.accounts)) in {state.balances for state in machine.possible}
