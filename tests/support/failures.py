"""Failures of mutations, and repairs of their causes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.support.harness import GatewayClient

Given = dict[str, Any]


async def nothing() -> None: ...


@dataclass
class Failure:
    """An input that fails, and a function that removes the cause."""

    given: Given
    repair: Callable[[], Awaitable[object]] = nothing


Failing = Callable[[GatewayClient], Awaitable[Failure]]


def fails_with(given: Callable[[], Given]) -> Failing:
    """Returns a failure whose input fails on any data."""

    async def fail(gateway: GatewayClient) -> Failure:
        return Failure({name: value(gateway) if callable(value) else value for name, value in given().items()})

    return fail
