"""The projections of pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from .documents import SCHEMA_VERSION, Projection


@lru_cache(maxsize=1_000)
def sorted_projection(order: tuple[tuple[str, int], ...], wanted: tuple[str, ...]) -> Projection:
    """Returns the projection of these paths with those that cursors and upgrades need, without nested duplicates.

    Do not change it: all pages of a list share it.
    """
    versioned = {**dict.fromkeys(wanted, 1), SCHEMA_VERSION: 1}
    needed = {path: 1 for path, _ in order if not _is_covered(path, versioned)}
    return {**_drop_below(versioned, needed), **needed}


def _is_covered(path: str, projection: Mapping[str, int]) -> bool:
    """Returns whether the path or a parent of it is in the projection."""
    return path in projection or any(path.startswith(f"{other}.") for other in projection)


def _drop_below(projection: Mapping[str, int], paths: Mapping[str, int]) -> dict[str, int]:
    """Returns the projection without paths below one of `paths`; MongoDB rejects such overlaps."""
    return {name: 1 for name in projection if not any(name.startswith(f"{path}.") for path in paths)}
