"""Subscriptions that are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.sockets import streamed


async def refused(
    port: int, query: str, variables: Mapping[str, Any] | None = None, *, token: str | None = None
) -> list[str]:
    """Subscribes by server-sent events. Returns the codes of the errors in the first event."""
    async with streamed(port, query, variables, token=token) as stream:
        event = await stream.receive()
    assert event is not None
    return [error["extensions"]["code"] for error in event[1]["errors"]]
