"""Subscribers to the comments of a discussion: sockets, streams, and how they end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from tests.content.support.site import create_section, entry_input
from tests.support.harness import GatewayClient
from tests.support.sockets import POSTED, EventStream, Socket, opened, wait_until_live


@contextlib.asynccontextmanager
async def acknowledged(port: int, token: str | None = None) -> AsyncIterator[Socket]:
    """Opens a socket whose first message is acknowledged."""
    async with opened(port) as socket:
        await socket.init(token)
        yield socket


@pytest.fixture
async def ready_socket(port: int) -> AsyncIterator[Socket]:
    """A socket to the gateway of the test whose first message is acknowledged."""
    async with acknowledged(port) as socket:
        yield socket


async def follow(gateway: GatewayClient, socket: Socket, discussion: str, count: int = 1) -> None:
    """Subscribes to a discussion. Returns when this many subscriptions are live, so that they miss no comment."""
    await socket.subscribe("1", POSTED, {"id": discussion})
    await wait_until_live(gateway, count)


async def assert_answers_ping(socket: Socket) -> None:
    """Asserts that the socket is open. The gateway has taken all earlier messages, so what they start is live."""
    await socket.send({"type": "ping"})
    assert await socket.receive() == {"type": "pong"}


async def data_of(stream: EventStream) -> Any:
    """Returns the data of the next event, which must be there."""
    event = await stream.receive()
    assert event is not None
    return event[1]


async def assert_ends(stream: EventStream, code: str) -> None:
    """Asserts that the next event has this error and no data, and is the last one."""
    last = await data_of(stream)
    assert last["errors"][0]["extensions"] == {"code": code}
    assert "data" not in last
    assert await stream.receive() == ("complete", None)


def expiring_token(gateway: GatewayClient) -> str:
    """Returns a token of `ann` that expires within a few seconds.

    A token is accepted for ten more seconds. At least four of them are left, because machines can be busy.
    """
    almost = SystemClock().now() - timedelta(seconds=9)
    return Authenticator(gateway.settings).issue("ann", [], now=almost, lasts=timedelta(seconds=4))


async def open_on_entry(gateway: GatewayClient) -> str:
    """Opens a discussion on a new blog entry that everybody may see. Returns its id."""
    created = await gateway.result("createBlogEntry", entry_input(await create_section(gateway, kind="BLOG")))
    made = await gateway.result("openDiscussion", {"subjectId": created["content"]["id"], "storage": "DOCUMENTS"})
    discussion: str = made["discussion"]["id"]
    return discussion


async def hide_entries(gateway: GatewayClient) -> None:
    """Turns all entries into drafts."""
    await gateway.db["cms.nodes"].update_many({}, {"$set": {"visible_from": None, "detail.publish_on": None}})
