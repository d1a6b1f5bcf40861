"""The commands of an operation, and whether each uses an index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.support.explaining import explain
from tests.support.harness import GatewayClient


async def sent(gateway: GatewayClient, call: Callable[[], Awaitable[object]]) -> list[Mapping[str, Any]]:
    gateway.commands.clear()
    await call()
    return list(gateway.commands.sent)


def names(commands: list[Mapping[str, Any]]) -> list[str]:
    return sorted(f"{next(iter(command))} {command[next(iter(command))]}" for command in commands)


async def assert_indexed(gateway: GatewayClient, commands: list[Mapping[str, Any]]) -> None:
    for command in commands:
        for plan in await explain(gateway.db, command):
            assert not plan.scans_collection, command
            assert not plan.sorts_in_memory, command
