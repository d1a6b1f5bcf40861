"""Commands that go out at the same time: none goes on alone after another has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from portico.resolvers.together import Begun, both, every
from tests.support.pausing import Pause


async def fail(number: int) -> None:
    await asyncio.sleep(0)
    raise ValueError(number)


@pytest.mark.parametrize("together", [lambda given: both(*given), every])
@pytest.mark.parametrize("place", [0, 1])
async def test_what_goes_out_beside_a_failure_has_ended_when_the_error_comes(
    together: Callable[[Sequence[Awaitable[Any]]], Awaitable[Any]], place: int
) -> None:
    ended: list[str] = []

    async def write() -> None:
        await asyncio.sleep(0.02)
        ended.append("written")

    work: list[Awaitable[Any]] = [write()]
    work.insert(place, fail(1))
    with pytest.raises(ValueError, match="1"):
        await together(work)

    assert ended == ["written"]


async def test_the_results_are_in_order() -> None:
    async def later(value: str, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return value

    assert await both(later("a", 0.02), later("b", 0)) == ("a", "b")
    assert await every(later(value, 0.02 / n) for n, value in enumerate("abc", 1)) == ["a", "b", "c"]


@pytest.mark.parametrize("first_waits", [True, False])
async def test_a_cancelled_call_ends_when_both_have_ended(*, first_waits: bool) -> None:
    ended: list[str] = []

    async def write(name: str, *, waits: bool) -> None:
        try:
            await asyncio.sleep(10 if waits else 0)
        except asyncio.CancelledError:
            await asyncio.sleep(0.02)
            raise
        finally:
            ended.append(name)

    await _cancelled(write("one", waits=first_waits), write("other", waits=True))

    assert sorted(ended) == ["one", "other"]


async def test_a_call_that_is_cancelled_while_it_waits_after_a_failure_leaves_none_behind() -> None:
    ended: list[str] = []

    async def write() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("written")

    await _cancelled(fail(1), write())

    assert ended == ["written"]


async def _cancelled(*work: Awaitable[Any]) -> None:
    """Cancels a call that waits for both, and waits for its end."""

    async def wait() -> None:
        await both(*work)

    call = asyncio.create_task(wait())
    await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_the_caller_of_what_has_begun_is_woken_with_its_result() -> None:
    pause = Pause()
    begun = Begun(pause(3))
    waiting = asyncio.create_task(begun.result())
    await asyncio.sleep(0)
    assert not waiting.done()
    pause.go_on.set()

    assert await waiting == 3
    assert await begun.ended() is None


async def test_a_cancelled_caller_does_not_cancel_what_has_begun() -> None:
    go_on, done = asyncio.Event(), list[str]()

    async def work() -> None:
        await go_on.wait()
        done.append("work")
        raise LookupError

    begun = Begun(work())
    waiting = asyncio.create_task(begun.result())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    go_on.set()

    assert isinstance(await begun.ended(), LookupError)
    assert (waiting.cancelled(), done) == (True, ["work"])
    with pytest.raises(LookupError):
        await begun.result()


async def test_a_caller_may_wait_again_for_what_has_begun_after_a_timeout() -> None:
    pause = Pause()
    begun = Begun(pause(3))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(begun.result(), 0.01)
    asyncio.get_running_loop().call_soon(pause.go_on.set)

    assert await begun.result() == 3
