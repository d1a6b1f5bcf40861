"""Calls that are combined: each is served once and in order, in bounded batches that never overlap for a key."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.resolvers.answer_bounds import METER, Meter, Room
from portico.resolvers.documents import Database
from portico.resolvers.waiting import ASIDE
from portico.resolvers.writes.combining import Combiner, Take, Waiting, take_all, take_first
from tests.support.sockets import until

# Nothing here asks the database.
NO_DATABASE: Any = None


@dataclass(eq=False, kw_only=True)
class Call(Waiting[int]):
    db: Database = NO_DATABASE
    number: int


class Work:
    """Serves batches, each of which takes some iterations of the event loop. Numbers in `bad` make their batch fail."""

    def __init__(self, bad: frozenset[int] = frozenset(), *, linger: float = 0, most: int | None = None) -> None:
        self.bad = bad
        self.batches: list[tuple[str, list[int]]] = []
        self.busy: set[str] = set()
        self.blocked: asyncio.Event | None = None
        take: Take[Call] = take_all if most is None else take_first(most)
        self.calls: Combiner[str, Call] = Combiner(self.serve, take=take, linger=lambda _key: linger)

    async def serve(self, key: str, batch: list[Call]) -> None:
        assert key not in self.busy
        self.busy.add(key)
        try:
            self.batches.append((key, [call.number for call in batch]))
            await asyncio.sleep(0)
            if self.blocked is not None:
                await self.blocked.wait()
            for call in batch:
                if call.number in self.bad:
                    raise ValueError(call.number)
                call.answer(-call.number)
        finally:
            self.busy.remove(key)

    def add(self, number: int, key: str = "a", *, is_urgent: bool = True) -> asyncio.Future[int]:
        call = Call(number=number, is_urgent=is_urgent)
        self.calls.add(key, call)
        return call.done

    def served(self, key: str) -> list[int]:
        return [number for one, numbers in self.batches if one == key for number in numbers]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("ab")),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.integers(0, 3)),
    ),
    max_size=60,
)


@given(steps=STEPS, most=st.integers(1, 5), bad=st.frozensets(st.integers(0, 30), max_size=4))
def test_each_call_is_served_once_in_order_in_bounded_batches(
    steps: list[tuple[str, Any]], most: int, bad: frozenset[int]
) -> None:
    async def run() -> None:
        work = Work(bad, most=most)
        added: dict[str, list[int]] = {"a": [], "b": []}
        futures: list[asyncio.Future[int]] = []
        for step, value in steps:
            if step == "add":
                added[value].append(len(futures))
                futures.append(work.add(len(futures), value))
            elif step == "cancel" and value < len(futures):
                futures[value].cancel()
            elif step == "wait":
                for _ in range(value):
                    await asyncio.sleep(0)
        await work.calls.close()

        assert {key: work.served(key) for key in added} == added
        assert all(1 <= len(numbers) <= most for _, numbers in work.batches)
        failed = {number for _, numbers in work.batches if bad.intersection(numbers) for number in numbers}
        for number, future in enumerate(futures):
            assert future.done()
            if not future.cancelled() and future.exception() is None:
                assert future.result() == -number
            elif not future.cancelled():
                assert number in failed
        assert work.calls.is_idle("a")
        assert work.calls.is_idle("b")

    asyncio.run(run())


async def test_calls_that_come_while_a_batch_is_served_share_the_next_one() -> None:
    work = Work()
    work.blocked = asyncio.Event()
    first = work.add(1)
    await until(lambda: bool(work.batches))
    others = [work.add(number) for number in (2, 3, 4)]
    elsewhere = work.add(9, "b")
    await until(lambda: len(work.batches) == 2)
    work.blocked.set()

    assert await asyncio.gather(first, *others, elsewhere) == [-1, -2, -3, -4, -9]
    assert work.batches == [("a", [1]), ("b", [9]), ("a", [2, 3, 4])]


async def test_an_error_belongs_to_its_batch_and_leaves_answers_that_were_given() -> None:
    work = Work(frozenset({2}), most=3)
    futures = [work.add(number) for number in range(1, 6)]

    found = await asyncio.gather(*futures, return_exceptions=True)

    assert [str(one) for one in found] == ["-1", "2", "2", "-4", "-5"]


async def test_a_batch_waits_for_an_urgent_call_but_not_for_ever() -> None:
    work = Work(linger=30)
    lingering = [work.add(1, is_urgent=False), work.add(2, is_urgent=False)]
    await asyncio.sleep(0.02)
    assert not work.batches
    assert await asyncio.gather(work.add(3), *lingering) == [-3, -1, -2]
    assert work.batches == [("a", [1, 2, 3])]

    brief = Work(linger=0.01)
    assert await brief.add(1, is_urgent=False) == -1


async def test_a_cancelled_task_cancels_what_waits_and_a_later_call_is_served() -> None:
    work = Work(most=1)
    work.blocked = asyncio.Event()
    futures = [work.add(number) for number in (1, 2)]
    await until(lambda: bool(work.batches))
    closing = asyncio.create_task(work.calls.close())
    await asyncio.sleep(0)
    closing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await closing
    for future in futures:
        with pytest.raises(asyncio.CancelledError):
            await future
    work.blocked.set()
    assert await work.add(3) == -3


async def test_a_batch_waits_for_nobody_and_no_meter_counts_what_it_reads() -> None:
    seen: list[tuple[object, object]] = []

    async def serve(_key: None, batch: list[Call]) -> None:
        seen.append((ASIDE.get(), METER.get()))
        batch[0].answer(0)

    async def call(combiner: Combiner[None, Call]) -> None:
        METER.set(Meter(1, Room()))
        ASIDE.set(lambda: nullcontext())  # noqa: PLW0108 - any other value than the default
        one = Call(number=0)
        combiner.add(None, one)
        await one.done
        assert METER.get() is not None

    await asyncio.create_task(call(Combiner(serve)))
    assert seen == [(nullcontext, None)]
