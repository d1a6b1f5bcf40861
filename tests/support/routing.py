"""Finds the commands that a sharded cluster sends to all shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from portico.resolvers.documents import CollectionSpec
from tests.support.domains import COLLECTIONS

SHARDED = {spec.name: spec for spec in COLLECTIONS if spec.shard_key is not None}
_STATEMENTS = {"update": "updates", "delete": "deletes"}


def unroutable(commands: list[Mapping[str, Any]]) -> list[str]:
    """The commands on sharded collections whose filters lack the shard key, with the paths of the filter."""
    found: list[str] = []
    for command in commands:
        verb = next(iter(command))
        spec = SHARDED.get(command[verb])
        if spec is not None and verb != "insert":
            astray = [query for query in _filters(verb, command) if not _holds_key(spec, query)]
            found += [f"{verb} {spec.name} {' '.join(sorted(query))}" for query in astray]
    return found


def _filters(verb: str, command: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if verb in _STATEMENTS:
        yield from (statement["q"] for statement in command[_STATEMENTS[verb]])
    elif verb == "aggregate":
        yield next((stage["$match"] for stage in command["pipeline"] if "$match" in stage), {})
    else:
        yield command.get("filter", command.get("query", {}))


def _holds_key(spec: CollectionSpec, query: Mapping[str, Any]) -> bool:
    """Whether the filter has equality or `$in` on every path of the key, directly or within `$and`."""
    assert spec.shard_key is not None
    conditions = [query, *query.get("$and", ())]
    return all(any(path in one and _names_values(one[path]) for one in conditions) for path in spec.shard_key)


def _names_values(wanted: Any) -> bool:
    """Null is a value, too: it is the parent of the nodes at the root of the site. A value can also be a document."""
    operators = {name for name in wanted if name.startswith("$")} if isinstance(wanted, dict) else set()
    return operators <= {"$in", "$eq"}
