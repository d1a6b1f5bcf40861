"""The commands of an operation, and whether each uses an index."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from tests.support.explaining import explain
from tests.support.harness import GatewayClient
from tests.support.routing import unroutable


async def sent(gateway: GatewayClient, call: Awaitable[object]) -> list[Mapping[str, Any]]:
    gateway.commands.clear()
    await call
    return list(gateway.commands.sent)


def names(commands: list[Mapping[str, Any]]) -> list[str]:
    return sorted(f"{next(iter(command))} {command[next(iter(command))]}" for command in commands)


async def assert_indexed(gateway: GatewayClient, commands: list[Mapping[str, Any]]) -> None:
    for command in commands:
        for plan in await explain(gateway.db, command):
            assert not plan.scans_collection, command
            assert not plan.sorts_in_memory, command


async def assert_sends(
    gateway: GatewayClient, call: Awaitable[object], expected: Sequence[str], name: str
) -> list[str]:
    """Asserts that the call sends these commands, each by an index. Returns the commands that go to all shards.

    Args:     name: of the call, for the message of a failure.
    """
    commands = await sent(gateway, call)
    assert names(commands) == expected, name
    await assert_indexed(gateway, commands)
    return unroutable(commands)
