"""A socket of the driver is closed, whenever a client stops to wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import warnings

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError


async def given_up(uri: str, turns: int, *, cancelled: bool) -> None:
    """Closes a client some turns of the loop after its first command, which may be cancelled before."""
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


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_client_that_is_closed_as_it_connects_leaves_no_socket_open(mongodb_uri: str, *, cancelled: bool) -> None:
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for turns in range(40):
            asyncio.run(given_up(mongodb_uri, turns, cancelled=cancelled))
        gc.collect()
    assert [str(warning.message) for warning in told] == []
