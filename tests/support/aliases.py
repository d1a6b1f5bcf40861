"""Operations that select a field many times."""

from __future__ import annotations


def aliased(selection: str, times: int) -> str:
    """Returns the selection this many times, under the aliases `a0`, `a1` and so on."""
    return " ".join(f"a{number}: {selection}" for number in range(times))
