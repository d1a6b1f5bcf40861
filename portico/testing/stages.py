"""One matrix for every mutation: crashes of the call and of the jobs, pauses, races and doubled replies.

A `Stage` has data, and the cases of calls on it. Each way of `WAYS` tries one case wherever it can be stopped, and each
time on the same data. Without `whole`, it tries some of these places, and others in each run.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, ClassVar

from portico.gateway.domains import schema_of
from portico.resolvers.declarations import Domain
from portico.resolvers.writes.intents import INTENTS

from .crashes import RECOVERY_SECONDS, crashing, database_of, stopping
from .gateways import Answer, SettableClock
from .interruptions import before_every_command
from .jobs import assert_invariants, empty_domains, run_jobs
from .kits import Given, mutation_text
from .repeated_writes import RepeatedWrites
from .snapshots import Snapshot

_FEW_CHANGES = (
    "The call could be stopped at {} changes only. Either `least` of the stage is too high, or its `collections` lack "
    "one that calls or jobs change, such as `operations`, so that the call had been answered before."
)
_PAUSE_SECONDS = 60
_RACING = 5


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
        self, mutation: str, given: Given, command: int
    ) -> tuple[asyncio.Task[Answer], Callable[[], None]]:
        """Starts a call that pauses before this command, and sends no other one meanwhile. Returns the call and the
        function that resumes it. The call may end without a pause.
        """
        reached, go_on = asyncio.Event(), asyncio.Event()
        left = command

        async def sleep() -> None:
            nonlocal left
            if left:
                left -= 1
                return
            reached.set()
            await asyncio.wait_for(go_on.wait(), _PAUSE_SECONDS)

        with database_of(self.gateway, before_every_command(self.gateway.db, sleep)):
            call = asyncio.create_task(self.ask(mutation, given))
            fallen = asyncio.create_task(reached.wait())
            await asyncio.wait({call, fallen}, return_when=asyncio.FIRST_COMPLETED)
            fallen.cancel()
        return call, go_on.set


class _Try:
    """A case on a stage, and the assertions on it."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage, self.name = stage, name
        self.case = stage.cases[name]
        self.mutation = self.case.mutation

    @property
    def after(self) -> Any:
        after = self.case.after
        return after(self.stage.built) if callable(after) else after

    def assert_answer(self, answer: Answer, place: object) -> None:
        found = answer.data[self.mutation]
        expected = {"__typename": self.case.member or found["__typename"], **self.case.answer}
        assert expected.items() <= found.items(), (place, found)
        assert self.case.member or found["__typename"].endswith("Payload"), (place, found)

    def assert_resumed(self, answer: Answer, place: object) -> None:
        """Asserts that a call that has paused got its answer, or one of those that it may get instead."""
        instead = answer.codes or [answer.data[self.mutation]["__typename"]]
        if instead[0] not in self.case.overtaken:
            self.assert_answer(answer, place)

    async def repeat(self, given: Given, place: object) -> None:
        self.stage.clock.advance(seconds=RECOVERY_SECONDS)
        answers = [await self.stage.ask(self.mutation, given) for _ in range(2)]
        assert answers[0].body == answers[1].body, place
        self.assert_answer(answers[0], place)

    async def finish(self, place: object) -> None:
        """Runs the jobs, and asserts that the call has had its effect once."""
        if self.stage.finishes:
            await self.stage.assert_is(self.after, place=place)
        await self.stage.run_jobs()
        await self.stage.assert_is(self.after, place=place)
        await self.stage.assert_over()


def places(of: int, *, whole: bool = False, first: int | None = None) -> Iterator[int]:
    """Yields every n-th number for n = `of`, from `first` or a random one below n; every number if `whole`.

    Together, the runs of a test try all places. Seed `random` to try the same ones again, as pytest-randomly does.
    """
    if whole:
        return itertools.count()
    return itertools.count(random.randrange(of) if first is None else first % of, of)  # noqa: S311 - no secret


async def crash_the_call(stage: Stage, name: str, whole: bool, *, jobs_first: bool) -> int:
    """Stops the call after each change. A repeated call, before or after the jobs, has its effect once.

    If the jobs come first, the first case of a stage is always stopped after each change.
    """
    one = _Try(stage, name)
    is_first = name == next(iter(stage.cases))
    for stop in places(2 if jobs_first else 4, whole=whole or (jobs_first and is_first)):
        given = await stage.set(name)
        if not await stage.crash(one.mutation, given, stop):
            break
        if stage.answer is not None and not stage.answer.codes:
            one.assert_resumed(stage.answer, stop)
        await stage.assert_sound()
        if jobs_first:
            await stage.run_jobs()
            await stage.assert_is(stage.built, one.after, place=stop)
        await one.repeat(given, stop)
        await one.finish(stop)
    assert stop > stage.least[0], _FEW_CHANGES.format(stop)
    return stop


async def crash_the_jobs(stage: Stage, name: str, whole: bool) -> int:
    """Stops the jobs, too, after each change. Their next run finishes the call or undoes it."""
    one = _Try(stage, name)
    begin = next(places(4))
    for call in places(2, whole=whole):
        if not await stage.crash(one.mutation, await stage.set(name), call):
            break
        crash_again = await stage.saved()
        for tries, stop in enumerate(places(4, whole=whole, first=begin + call // 2)):
            if tries:
                await crash_again()
            stage.clock.advance(seconds=stage.job_seconds)
            with crashing(stage.gateway, stop) as faulty, stopping():
                await stage.run_jobs(seconds=0)
            await stage.assert_sound()
            await stage.run_jobs(seconds=stage.next_run)
            await stage.assert_is(stage.built, one.after, place=(call, stop))
            if not faulty.has_crashed:
                break
    assert call > stage.least[0], _FEW_CHANGES.format(call)
    return call


async def pause_the_call(stage: Stage, name: str, whole: bool, *, meanwhile: Sequence[str]) -> int:
    """Pauses the call before its commands, while others take it for crashed, and finish it or repeat it."""
    one = _Try(stage, name)
    for command in places(4, whole=whole or (meanwhile == ("jobs",) and stage.every_pause)):
        given = await stage.set(name)
        call, wake = await stage.asleep(one.mutation, given, command)
        if call.done():
            break
        for step in meanwhile:
            if step == "jobs":
                await stage.run_jobs()
                await stage.assert_sound()
            else:
                await one.repeat(given, command)
        wake()
        one.assert_resumed(await call, command)
        await one.repeat(given, command)
        await one.finish(command)
    assert command > stage.least[1]
    return command


async def race(stage: Stage, name: str, _whole: bool) -> int:
    """Sends several calls with one key at the same time."""
    one = _Try(stage, name)
    given = await stage.set(name)
    answers = await asyncio.gather(*(stage.ask(one.mutation, given) for _ in range(_RACING)))
    assert all(answer.body == answers[0].body for answer in answers), answers
    one.assert_answer(answers[0], "a race")
    await one.finish("a race")
    return 1


async def double_the_replies(stage: Stage, name: str, _whole: bool) -> int:
    """Loses the reply to each `find_one_and_update`, so that the driver sends it again."""
    one = _Try(stage, name)
    given = await stage.set(name)
    with database_of(stage.gateway, RepeatedWrites.of(stage.gateway.db)):
        one.assert_answer(await stage.ask(one.mutation, given), "doubled replies")
    await one.finish("doubled replies")
    return 1


# How a call is tried. Each way gets a stage, the name of a case, and whether to try all places, not some of them. It
# returns the number of the last place.
WAYS: dict[str, Callable[[Stage, str, bool], Awaitable[int]]] = {
    "crash, then the jobs": partial(crash_the_call, jobs_first=True),
    "crash, then a retry": partial(crash_the_call, jobs_first=False),
    "crash of the jobs": crash_the_jobs,
    "pause for the jobs": partial(pause_the_call, meanwhile=("jobs",)),
    "pause for a retry": partial(pause_the_call, meanwhile=("repeat", "jobs")),
    "pause for both": partial(pause_the_call, meanwhile=("jobs", "repeat", "jobs")),
    "race": race,
    "doubled replies": double_the_replies,
}
