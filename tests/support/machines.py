"""Settings for tests that compare random steps with a model."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.harness import IS_SOAK

T = TypeVar("T")


def examples(short: int = 10, long: int = 1_000) -> settings:
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
