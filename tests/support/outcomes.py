"""What several calls have returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


def kinds(results: Iterable[Any]) -> Counter[str]:
    """Counts the union members by their types."""
    return Counter(result["__typename"] for result in results)
