"""The driver survives cancelled calls: its sockets are closed, and other calls that wait for a server go on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import uvloop
from pymongo import AsyncMongoClient, pool_shared
from pymongo import uri_parser as pymongo_uri
from pymongo.errors import PyMongoError, ServerSelectionTimeoutError
from pymongo.pool_options import PoolOptions

from portico.gateway.mongo.driver import connect
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from tests.support.harness import IS_SOAK

NewLoop = Callable[[], asyncio.AbstractEventLoop]


async def connect_and_close(uri: str, turns: int, *, cancelled: bool) -> None:
    """Close a client after its first command and some iterations of the event loop. If `cancelled`, cancel it first."""
    client = AsyncMongoClient[dict[str, object]](uri)
    command = asyncio.ensure_future(client.admin.command("ping"))
    for _ in range(turns):
        await asyncio.sleep(0)
    if cancelled:
        command.cancel()
    await client.close()
    command.cancel()
    with contextlib.suppress(PyMongoError, asyncio.CancelledError):
        await command


async def connect_until_the_loop_ends(uri: str, turns: int) -> None:
    """Return while the driver connects, so that the loop cancels all tasks at once."""
    address = pymongo_uri.parse_uri(uri)["nodelist"][0]
    connecting = asyncio.ensure_future(pool_shared._async_create_connection(address, PoolOptions()))
    connecting.add_done_callback(lambda task: None if task.cancelled() else task.result().close())
    for _ in range(turns):
        await asyncio.sleep(0)


LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def some_turns() -> Iterable[int]:
    """Returns how many turns of the loop a client connects for: every second number in a run, all in a soak."""
    return range(40) if IS_SOAK else range(random.randrange(2), 40, 2)


@LOOPS
@pytest.mark.sample(2)
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_client_that_is_closed_while_it_connects_leaves_no_socket_open(
    mongodb_uri: str, new_loop: NewLoop, *, cancelled: bool
) -> None:
    with assert_nothing_is_left_open():
        for turns in some_turns():
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(connect_and_close(mongodb_uri, turns, cancelled=cancelled))


@LOOPS
def test_a_loop_that_ends_while_the_driver_connects_leaves_no_socket_open(mongodb_uri: str, new_loop: NewLoop) -> None:
    with assert_nothing_is_left_open():
        for turns in some_turns():
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(connect_until_the_loop_ends(mongodb_uri, turns))


async def test_calls_that_are_cancelled_during_an_outage_neither_fail_nor_block_the_others() -> None:
    uri = "mongodb://127.0.0.1:9"
    connection: Any = connect(Settings(mongodb_uri=Secret(uri), database_seconds=4), uri)
    calls = [asyncio.create_task(connection.database.command("ping")) for _ in range(20)]
    await asyncio.sleep(0.1)
    # The driver looks for a server every half a second. All calls then need this lock.
    async with connection._client._topology._lock:
        await asyncio.sleep(0.7)
        for call in calls[::2]:
            call.cancel()
        await asyncio.sleep(0.1)
    ended, waiting = await asyncio.wait(calls, timeout=10)
    assert waiting == set()
    failures = [call.exception() for call in ended if not call.cancelled()]
    assert {type(failure) for failure in failures} == {ServerSelectionTimeoutError}
    assert len(failures) == len(calls) // 2
    await connection.close()


@contextlib.contextmanager
def assert_nothing_is_left_open() -> Iterator[None]:
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
