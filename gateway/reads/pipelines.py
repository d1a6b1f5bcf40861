"""Which paths of documents the result of a pipeline depends on. What is not known here, depends on all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .paths import ALL_PATHS, NO_PATHS, TEXT, Paths, union
from .queries import Query

Stage = Mapping[str, Any]
# Variables that stand for the whole document, and for the time.
_WHOLE = ("$$ROOT", "$$CURRENT", "$$NOW", "$$CLUSTER_TIME")
# Operators that read fields by names that are no paths, or do what nobody knows.
_OPAQUE = {"$getField", "$setField", "$unsetField", "$function", "$accumulator", "$rand", "$sampleRate"}


def paths_in(expression: Any) -> Paths:
    """Returns the paths that an expression reads. The values of its own variables come from these."""
    if isinstance(expression, str):
        return _of_text(expression)
    if isinstance(expression, list | tuple):
        return union(map(paths_in, expression))
    if not isinstance(expression, Mapping) or "$literal" in expression:
        return NO_PATHS
    if "$meta" in expression:
        return TEXT if expression["$meta"] == "textScore" else ALL_PATHS
    return union(map(paths_in, expression.values())) if _OPAQUE.isdisjoint(expression) else ALL_PATHS


def _of_text(text: str) -> Paths:
    if text.startswith("$$"):
        return ALL_PATHS if text.startswith(_WHOLE) else NO_PATHS
    return Paths([text[1:]]) if text.startswith("$") else NO_PATHS


def paths_of(stages: Sequence[Stage]) -> Paths:
    """Returns the paths that decide about the result: those of the stages up to one that leaves out all others."""
    found = NO_PATHS
    is_sorted = False
    for stage in stages:
        ((name, argument),) = stage.items()
        if name in {"$limit", "$skip"} and is_sorted:
            continue
        if name not in _USED:
            return ALL_PATHS
        found = found | _USED[name](argument)
        if name in {"$count", "$group"} or (name == "$project" and is_inclusion(argument)):
            return found
        is_sorted = is_sorted or name == "$sort"
    return ALL_PATHS


def is_inclusion(projection: Mapping[str, Any]) -> bool:
    """Returns whether a projection names what it shows, and not what it hides."""
    # One that hides the `_id` alone shows everything else.
    return projection != {"_id": 0} and all(
        value not in (0, False) or path == "_id" for path, value in projection.items()
    )


def _projected(projection: Mapping[str, Any]) -> Paths:
    if not is_inclusion(projection):
        return NO_PATHS
    found = Paths(["_id"])
    for path, value in projection.items():
        if isinstance(value, Mapping) and not all(name.startswith("$") for name in value):
            # A nested projection.
            return ALL_PATHS
        is_shown = isinstance(value, int | float)
        found = found | (Paths([path]) if is_shown else paths_in(value))
    return found


def _sorted_by(order: Mapping[str, Any]) -> Paths:
    return Paths(order) | union(paths_in(one) for one in order.values())


def _unwound(argument: Any) -> Paths:
    return paths_in(argument if isinstance(argument, str) else argument["path"])


def _computed(argument: Mapping[str, Any]) -> Paths:
    return union(map(paths_in, argument.values()))


_USED: Mapping[str, Callable[[Any], Paths]] = {
    "$match": lambda query: Query(query).filter.paths,
    "$set": _computed,
    "$addFields": _computed,
    "$sort": _sorted_by,
    "$unwind": _unwound,
    "$group": _computed,
    "$count": lambda _name: NO_PATHS,
    "$project": _projected,
}
