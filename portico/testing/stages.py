"""Stages: data, and the cases of calls on it, which `ways` tries wherever they can be stopped."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar

from portico.gateway.domains import schema_of
from portico.gateway.mongo.faults import Crash
from portico.resolvers.declarations import Domain
from portico.resolvers.writes.intents import INTENTS

from .crashes import RECOVERY_SECONDS, crashing, database_of
from .gateways import Answer, SettableClock
from .interruptions import before_every_command
from .jobs import assert_invariants, empty_domains, run_jobs
from .kits import Given, mutation_text
from .snapshots import Snapshot

_PAUSE_SECONDS = 60


@dataclass(frozen=True)
class Case:
    """A call on the data of a stage, and what it leads to.

    Args:
        mutation:  its name.
        given:     returns its input, given the stage.
        member:    the union member that it returns; empty for its payload.
        after:     the state after it, or a function that returns it, given the state before.
        answer:    what else it returns.
        overtaken: what the call may return instead after a pause, because others took it for crashed: union members
                   and codes of errors. A repeated call still succeeds.
    """

    mutation: str
    given: Callable[[Any], Given]
    member: str
    after: Any
    answer: Given = field(default_factory=dict)
    overtaken: Collection[str] = ()


class Stage(ABC):
    """A gateway with the data that `build` creates, and its calls.

    Attributes:
        collections:   those that the calls and the jobs change, also those of Portico, such as `operations`. They are
                       restored for each try.
        cases:         the calls, by a name for each.
        before:        the state after `build`; None if the stage does not know it in advance.
        job_names:     the names of the jobs that finish the calls; none for all.
        job_seconds:   how old a call must be until the jobs finish it.
        next_run:      how many seconds after a crashed run of the jobs the next one finishes what it has begun.
        finishes:      whether a repeated call leaves nothing to the jobs.
        least:         the lowest number of changes at which each call can be stopped, and that of commands.
        every_pause:   whether a pause before every command is tried while the jobs run, not before some of them.
        selections:    what the calls select, by mutation.
        constants:     what constants are during a test, by their module and name: so little data fills a page.
        sample:        a run of the tests tries one of so many cases; 1 for all.
    """

    collections: Sequence[str]
    cases: ClassVar[Mapping[str, Case]] = {}
    before: ClassVar[Any] = None
    job_names: ClassVar[Sequence[str]] = ()
    job_seconds: ClassVar[int] = RECOVERY_SECONDS
    next_run: ClassVar[int] = 0
    finishes: ClassVar[bool] = False
    least: ClassVar[tuple[int, int]] = (1, 3)
    every_pause: ClassVar[bool] = False
    selections: ClassVar[Mapping[str, str]] = {}
    constants: ClassVar[Mapping[tuple[ModuleType, str], object]] = {}
    sample: ClassVar[int] = 1

    def __init__(self, gateway: Any, clock: SettableClock) -> None:
        self.gateway = gateway
        self.clock = clock
        self.built: Any = None
        # What the latest call that crashed was told.
        self.answer: Answer | None = None
        self._restore_built: Callable[[], Awaitable[None]] | None = None
        # The domains that have no document after `build`, and of which the calls change no collection.
        self._unchanged: Sequence[Domain] | None = None

    @abstractmethod
    async def build(self) -> None:
        """Creates the data for the calls."""

    async def state(self) -> Any:
        """Returns what the calls change, as users see it."""
        return None

    async def assert_sound(self) -> None:
        """Asserts what holds at every moment, also while a call is unfinished: by default, the invariants."""
        await assert_invariants(self.gateway, in_flight=True, empty=await self._empty())

    async def assert_settled(self) -> None:
        """Asserts that nothing is in flight, and that all invariants hold."""
        await assert_invariants(self.gateway, empty=await self._empty())

    async def _empty(self) -> Sequence[Domain] | None:
        """Returns the domains that have no document, if they are known. An intent may belong to any of them."""
        if self._unchanged is None:
            return None
        intent = await self.gateway.db[INTENTS.name].find_one({}, {"_id": 1})
        return self._unchanged if intent is None else ()

    async def assert_over(self) -> None:  # noqa: B027 - most stages have nothing to assert
        """Asserts what holds at the end of a try, when nobody repeats the call any more."""

    async def assert_is(self, *expected: Any, place: object = None) -> None:
        """Asserts that the state is one of the expected ones, and that nothing is in flight."""
        state = await self.state()
        assert state in expected, (place, state)
        await self.assert_settled()

    def token(self, _mutation: str) -> str | None:
        """Returns the token for calls of this mutation. The default is the gateway's caller."""
        return ""

    async def restore(self) -> None:
        """Restores the data and the time to the state after `build`."""
        if self._restore_built is None:
            await self.build()
            self._restore_built = await self.saved()
            self._unchanged = await empty_domains(self.gateway, self.collections)
            self.built = await self.state()
            assert self.before in (None, self.built)
            return
        await self._restore_built()

    async def saved(self) -> Callable[[], Awaitable[None]]:
        """Returns a function that restores the data and the time to those of now.

        Override it if the calls change something else, such as what a payment provider knows.
        """
        snapshot, offset = Snapshot(self.gateway.db, self.collections), self.clock.offset
        await snapshot.take()

        async def restore() -> None:
            await snapshot.restore()
            self.clock.offset = offset

        return restore

    async def set(self, name: str) -> Given:
        """Restores the data. Returns the input of a case, with an idempotency key."""
        await self.restore()
        return {"idempotencyKey": "the key", **self.cases[name].given(self)}

    async def ask(self, mutation: str, given: Given) -> Answer:
        schema = schema_of(self.gateway.domains)._schema  # noqa: SLF001 - strawberry has no public attribute for it
        text = mutation_text(schema, mutation, self.selections.get(mutation, ""))
        answer: Answer = await self.gateway.ask(text, {"input": given}, token=self.token(mutation))
        return answer

    async def result(self, mutation: str, given: Given) -> Given:
        """Calls the mutation. Returns its union member: the payload, or a failure."""
        found: Given = (await self.ask(mutation, given)).data[mutation]
        return found

    async def typename_of(self, mutation: str, given: Given) -> str:
        """Calls the mutation. Returns the `__typename` of its union member."""
        return str((await self.result(mutation, given))["__typename"])

    async def crash(self, mutation: str, given: Given, stop: int) -> bool:
        """Crashes the call after this number of changes. Returns False if the call ends before."""
        with crashing(self.gateway, stop) as faulty:
            answer = self.answer = await self.ask(mutation, given)
        # A crash after the answer leaves the answer as it is.
        if faulty.has_crashed and answer.codes:
            # A crash before a read for the payload leaves out what was to be read.
            assert {*answer.codes} == {"INTERNAL"}, answer.body
        return bool(faulty.has_crashed)

    async def run_jobs(self, *, seconds: int | None = None) -> None:
        """Runs the jobs when what was begun before is old enough for them, or after this time."""
        self.clock.advance(seconds=self.job_seconds if seconds is None else seconds)
        await run_jobs(self.gateway, self.clock, *self.job_names, empty=None if self.job_names else await self._empty())

    async def asleep(
        self, mutation: str, given: Given, command: int, *, patience: float | None = None, dies: bool = False
    ) -> tuple[asyncio.Task[Answer], Callable[[], None]]:
        """Starts a call that pauses before this command, and sends no other one meanwhile. Returns the call and the
        function that resumes it. The call may end without a pause.

        Args:     patience: how many seconds the call may wait for another one that pauses; then it pauses later.
                  dies: it crashes after one more command.
        """
        reached, go_on = asyncio.Event(), asyncio.Event()
        begun = resumed = 0

        async def sleep() -> None:
            nonlocal begun, resumed
            begun += 1
            if begun <= command:
                return
            reached.set()
            await asyncio.wait_for(go_on.wait(), _PAUSE_SECONDS)
            resumed += 1
            if dies and resumed > 1:
                raise Crash

        with database_of(self.gateway, before_every_command(self.gateway.db, sleep)):
            call = asyncio.create_task(self.ask(mutation, given))
            fallen = asyncio.create_task(reached.wait())
            await asyncio.wait({call, fallen}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            fallen.cancel()
        return call, go_on.set
