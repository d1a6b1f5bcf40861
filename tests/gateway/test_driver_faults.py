"""The driver closes its socket even if the client is closed or cancelled while it connects."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import warnings

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError


async def connect_and_close(uri: str, turns: int, *, cancelled: bool) -> None:
    """Close a client some turns of the loop after its first command. If `cancelled`, cancel the command first."""
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
def test_a_client_that_is_closed_while_it_connects_leaves_no_socket_open(mongodb_uri: str, *, cancelled: bool) -> None:
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for turns in range(40):
            asyncio.run(connect_and_close(mongodb_uri, turns, cancelled=cancelled))
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
