"""Batched reads: keys that are requested together are read together, and each caller gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portico.loaders.batching import MAX_BATCH, Loader, Loaders


class Reads:
    """Reads squares of even numbers; odd numbers have none. Records its batches. A `broken` key makes a read fail."""

    def __init__(self, broken: Sequence[int] = ()) -> None:
        self.batches: list[list[int]] = []
        self.broken = set(broken)
        self.begun = asyncio.Event()
        self.loader = Loader(self)

    async def __call__(self, keys: Sequence[int]) -> Mapping[int, int]:
        self.batches.append(list(keys))
        self.begun.set()
        await asyncio.sleep(0)
        if self.broken & set(keys):
            raise ConnectionError(f"cannot read {len(keys)}")
        return {key: key * key for key in keys if key % 2 == 0}


async def answers(*waiting: asyncio.Future[int | None]) -> list[int | None]:
    return list(await asyncio.gather(*waiting))


async def test_keys_requested_in_one_turn_are_read_at_once() -> None:
    reads = Reads()

    assert await answers(*(reads.loader.load(key) for key in (4, 2, 4, 6))) == [16, 4, 16, 36]
    assert reads.batches == [[4, 2, 6]]


@settings(max_examples=60, deadline=None)
@given(delays=st.lists(st.integers(0, 1), min_size=1, max_size=30))
async def test_keys_requested_a_turn_apart_are_read_at_once(delays: list[int]) -> None:
    """Each key comes at most one iteration of the event loop after the previous one."""
    reads = Reads()
    waiting = []
    for number, delay in enumerate(delays):
        for _ in range(delay):
            await asyncio.sleep(0)
        waiting.append(reads.loader.load(number * 2))

    assert await answers(*waiting) == [(number * 2) ** 2 for number in range(len(delays))]
    assert reads.batches == [[number * 2 for number in range(len(delays))]]


async def test_a_key_is_read_once_and_its_answer_is_kept() -> None:
    reads = Reads()
    await reads.loader.load(2)

    assert await answers(reads.loader.load(2), reads.loader.load(6)) == [4, 36]
    assert reads.batches == [[2], [6]]


async def test_a_key_requested_during_a_read_waits_for_that_read_or_joins_the_next() -> None:
    reads = Reads()
    first = reads.loader.load(2)
    await reads.begun.wait()

    assert await answers(first, reads.loader.load(2), reads.loader.load(4)) == [4, 4, 16]
    assert reads.batches == [[2], [4]]


async def test_a_key_without_a_value_is_none() -> None:
    reads = Reads()

    assert await answers(reads.loader.load(1), reads.loader.load(2)) == [None, 4]
    assert await reads.loader.load(1) is None


async def test_an_error_reaches_only_the_callers_of_that_read() -> None:
    reads = Reads(broken=[2])
    failed = await asyncio.gather(
        reads.loader.load(2), reads.loader.load(4), reads.loader.load(2), return_exceptions=True
    )

    assert [str(error) for error in failed] == ["cannot read 2"] * 3
    assert await reads.loader.load(6) == 36
    with pytest.raises(ConnectionError, match="cannot read 2"):
        await reads.loader.load(4)
    assert reads.batches == [[2, 4], [6]]


async def test_many_keys_are_read_in_several_batches_and_one_may_fail() -> None:
    reads = Reads(broken=[MAX_BATCH * 2])
    found = await asyncio.gather(
        *(reads.loader.load(number * 2) for number in range(MAX_BATCH + 1)), return_exceptions=True
    )

    assert [len(batch) for batch in reads.batches] == [MAX_BATCH, 1]
    assert found[:-1] == [(number * 2) ** 2 for number in range(MAX_BATCH)]
    assert isinstance(found[-1], ConnectionError)


async def test_a_caller_that_is_cancelled_does_not_affect_the_others() -> None:
    reads = Reads()

    async def wait() -> int | None:
        return await reads.loader.load(2)

    leaving, staying = asyncio.create_task(wait()), asyncio.create_task(wait())
    await asyncio.sleep(0)
    leaving.cancel()

    assert await staying == 4
    assert leaving.cancelled()
    assert await reads.loader.load(2) == 4


@pytest.mark.parametrize("broken", [(), (2,)])
async def test_a_read_without_a_caller_ends_without_an_error(broken: tuple[int, ...]) -> None:
    reads = Reads(broken)
    waiting = reads.loader.load(2)
    waiting.cancel()
    await reads.begun.wait()
    await asyncio.sleep(0.01)

    with pytest.raises(ConnectionError) if broken else nullcontext():
        assert await reads.loader.load(2) == 4


async def test_each_name_has_its_own_loader() -> None:
    made: list[Reads] = []

    def read() -> Reads:
        made.append(Reads())
        return made[-1]

    loaders = Loaders()
    one, same, other = loaders.get("one", read), loaders.get("one", read), loaders.get("other", read)

    assert one is same
    assert one is not other
    assert len(made) == 2


async def test_a_caller_waits_for_keys_of_two_batches_in_any_order() -> None:
    slow = asyncio.Event()

    async def read(keys: Sequence[int]) -> Mapping[int, int]:
        if 1 in keys:
            await slow.wait()
        return {key: key * key for key in keys}

    loader = Loader(read)
    first = loader.load(1)
    await asyncio.sleep(0.01)
    both = asyncio.ensure_future(loader.load_all([1, 2]))
    await asyncio.sleep(0.01)
    slow.set()

    async with asyncio.timeout(5):
        assert (await both)[2] == 4
        assert await first == 1
