"""One matrix for every mutation: crashes of the call and of the jobs, pauses, races and doubled replies.

Each way of `WAYS` tries a case of a `Stage` wherever it can be stopped, and each time on the same data. Without
`whole`, it tries some of these places, and others in each run.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from .crashes import RECOVERY_SECONDS, crashing, database_of, stopping
from .gateways import Answer
from .kits import Given
from .repeated_writes import RepeatedWrites
from .stages import Stage

_FEW_CHANGES = (
    "The call could be stopped at {} changes only. Either `least` of the stage is too high, or its `collections` lack "
    "one that calls or jobs change, such as `operations`, so that the call had been answered before."
)
_RACING = 5
# How long a call may wait for another one that pauses.
_PATIENCE_SECONDS = 1.0


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

    async def finish(self, place: object, *, leaves: bool = False) -> None:
        """Runs the jobs, and asserts that the call has had its effect once.

        Args:     leaves: whether a crash after the last answer may have left something to the jobs.
        """
        if self.stage.finishes and not leaves:
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


async def pause_two_calls(stage: Stage, name: str, whole: bool, *, dies: bool) -> int:
    """Pauses the call before its commands. Another one with its key takes it for crashed, goes on, and pauses, too.

    The first one then goes on to its end, or crashes after one more command, and the other one goes on.
    """
    one = _Try(stage, name)
    for first in places(4, whole=whole):
        seconds, has_paused, is_over = places(4), True, False
        while has_paused and not is_over:
            has_paused, is_over = await _pause_both(one, first, next(seconds), dies=dies)
        if not has_paused:
            break
    assert first > stage.least[1]
    return first


async def _pause_both(one: _Try, first: int, second: int, *, dies: bool) -> tuple[bool, bool]:
    """Returns whether the first call has paused before this command, and whether the second one ended before its."""
    stage, place = one.stage, (first, second)
    given = await stage.set(one.name)
    call, wake = await stage.asleep(one.mutation, given, first, dies=dies)
    if call.done():
        return False, False
    stage.clock.advance(seconds=RECOVERY_SECONDS)
    other, wake_other = await stage.asleep(one.mutation, given, second, patience=_PATIENCE_SECONDS)
    is_over = other.done()
    wake()
    # It may wait for the other one.
    await asyncio.wait({call}, timeout=_PATIENCE_SECONDS)
    wake_other()
    answers = [await other, await call]
    for answer in answers[:1] if dies else answers:
        # Either may be told to try again.
        if answer.codes not in (["OPERATION_UNDER_WAY"], ["CONFLICT"]):
            one.assert_resumed(answer, place)
    await one.repeat(given, place)
    await one.finish(place, leaves=dies)
    return True, is_over


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
    "pause of two calls": partial(pause_two_calls, dies=False),
    "crash of one of two calls": partial(pause_two_calls, dies=True),
    "race": race,
    "doubled replies": double_the_replies,
}
