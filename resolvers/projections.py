"""Projections: which paths of documents a read fetches, and the values at paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any


def sorted_projection(
    paths: Iterable[tuple[str, int]], projection: Mapping[str, int] | None
) -> Mapping[str, int] | None:
    """Returns the projection with the paths that cursors and upgrades need, without nested duplicates."""
    return None if projection is None else _sorted_projection(tuple(paths), tuple(projection))


@lru_cache(maxsize=1_000)
def _sorted_projection(order: tuple[tuple[str, int], ...], paths: tuple[str, ...]) -> Mapping[str, int]:
    versioned = {**dict.fromkeys(paths, 1), "schema_version": 1}
    needed = {path: 1 for path, _ in order if not is_covered(path, versioned)}
    return {**drop_below(versioned, needed), **needed}


def is_covered(path: str, projection: Mapping[str, int]) -> bool:
    """Returns whether the path or a parent of it is in the projection."""
    return path in projection or any(path.startswith(f"{other}.") for other in projection)


def drop_below(projection: Mapping[str, int], paths: Mapping[str, int]) -> dict[str, int]:
    """Returns the projection without paths below one of `paths`; MongoDB rejects such overlaps."""
    return {name: 1 for name in projection if not any(name.startswith(f"{path}.") for path in paths)}


def value_at(document: Mapping[str, Any], path: str) -> Any:
    """Returns the value at a dotted path of nested documents; None if there is none."""
    value: Any = document
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
