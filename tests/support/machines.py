"""Machines: tests that compare random steps with a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from portico.gateway.mongo.faults import Crash
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock
from tests.support.interruptions import crashing

T = TypeVar("T")


def examples(short: int = 5, long: int = 1_000) -> settings:
    """Returns settings for this many examples. They are the same in each run, except in a soak.

    Each example must create its own data.
    """
    return settings(
        max_examples=long if IS_SOAK else short,
        deadline=None,
        derandomize=not IS_SOAK,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def step_lists(steps: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
    return st.lists(steps, min_size=20, max_size=60 if IS_SOAK else 25)


@dataclass
class Machine:
    """A gateway that takes steps. The `action` of a step is the name of a method, with blanks.

    A machine keeps the set of states that its data may be in. Without unsettled crashes there is exactly one.
    """

    # How old a call must be until the jobs finish it.
    job_seconds: ClassVar[int] = 6
    gateway: GatewayClient
    clock: SettableClock

    async def take(self, step: Any) -> None:
        await getattr(self, step.action.replace(" ", "_"))(step)

    async def jobs(self, _step: Any = None) -> None:
        await self.gateway.run_jobs(seconds=self.job_seconds)
        await self.settle()

    async def crash_jobs(self, step: Any) -> None:
        self.clock.advance(seconds=self.job_seconds)
        with crashing(self.gateway, step.stop):
            try:
                await self.gateway.run_jobs()
            except Crash:
                return

    async def settle(self) -> None:
        """Asserts that the stored state is a possible one, and drops the others."""
        raise NotImplementedError
