"""Differences of answers as JSON patches (RFC 6902), for clients of live queries that ask for them.

The paths are those within `data`. Lists are compared from both ends, so a row that comes or goes is one operation. The
rows between are found by their ids, so a row that moves is not written again.

The messages are those of graphql-live-query: the whole answer with `revision` 1, then `patch` with the next revision.
Source: https://github.com/n1ru4l/graphql-live-query, packages/graphql-live-query-patch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any

import orjson

from portico.gateway.operations.encoding import EncodedResponse
from portico.gateway.operations.json_text import encode

Operation = dict[str, Any]


class Patches:
    """Makes of the answers of a live query what one client gets."""

    def __init__(self) -> None:
        self._former: bytes | None = None
        self._revision = 0
        self._is_on = True

    def message_of(self, answer: EncodedResponse) -> EncodedResponse:
        """Returns the difference from the former answer, or the whole answer if that is shorter.

        After an answer without data, all are whole.
        """
        if not self._is_on or answer.is_last:
            return answer
        self._is_on = isinstance(orjson.loads(answer.json).get("data"), dict)
        if not self._is_on:
            return answer
        former, self._former = self._former, answer.json
        patch = None if former is None else _shared_patch(former, answer)
        if patch is None or len(patch) >= len(answer.json):
            patch, self._revision = answer.json, 0
        self._revision += 1
        return replace(answer, json=b'%b,"revision":%d}' % (patch[:-1], self._revision), whole=answer.json)


def _shared_patch(former: bytes, answer: EncodedResponse) -> bytes:
    """Returns the message without its revision. Those who have got the same former answer share it."""
    known = answer.shared.get(former)
    if known is None:
        old, new = orjson.loads(former), orjson.loads(answer.json)
        message = {"patch": list(patch_between(old["data"], new["data"])), **new}
        del message["data"]
        known = answer.shared[former] = encode(message)
    return known


def patch_between(old: Any, new: Any, path: str = "") -> Iterator[Operation]:
    """Yields the operations that make the new value of the old one, in their order."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _of_objects(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(old, new, path)
    elif not _equal(old, new):
        yield {"op": "replace", "path": path, "value": new}


def _of_objects(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Operation]:
    for name in old.keys() - new.keys():
        yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, value in new.items():
        below = f"{path}/{_escaped(name)}"
        if name in old:
            yield from patch_between(old[name], value, below)
        else:
            yield {"op": "add", "path": below, "value": value}


def _of_lists(old: list[Any], new: list[Any], path: str) -> Iterator[Operation]:
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    for place, gone, come in _aligned(old[start : len(old) - end], new[start : len(new) - end]):
        yield from _of_rows(gone, come, path, start + place)


def _of_rows(gone: list[Any], come: list[Any], path: str, start: int) -> Iterator[Operation]:
    """Yields the operations that put rows in the place of others. What is before `start` is already new."""
    both = min(len(gone), len(come))
    for place in range(both):
        yield from patch_between(gone[place], come[place], f"{path}/{start + place}")
    for place in range(len(gone) - 1, both - 1, -1):
        yield {"op": "remove", "path": f"{path}/{start + place}"}
    for place in range(both, len(come)):
        yield {"op": "add", "path": f"{path}/{start + place}", "value": come[place]}


def _aligned(old: list[Any], new: list[Any]) -> Iterator[tuple[int, list[Any], list[Any]]]:
    """Yields parts of two lists in which each row faces its former state, with the place of each part in the new list.

    Rows that occur twice face each other by their places.
    """
    before, after = list(map(_key, old)), list(map(_key, new))
    if len(set(before)) < len(before) or len(set(after)) < len(after):
        yield 0, old, new
        return
    for _, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        yield new_start, old[start:end], new[new_start:new_end]


def _key(row: Any) -> Hashable:
    """Returns what says which row this is: the id of the object, also of that of an edge, or else all of the row."""
    if isinstance(row, dict):
        node = row.get("node", row)
        found = node.get("id") if isinstance(node, dict) else None
        if isinstance(found, str):
            return found
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS)


def _alike(one: list[Any], other: list[Any]) -> int:
    """Returns how many values at the beginning are equal."""
    return sum(1 for _ in takewhile(lambda pair: _equal(*pair), zip(one, other, strict=False)))


def _equal(one: Any, other: Any) -> bool:
    """Returns whether two JSON values are equal. In Python, 1 equals true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_equal(*pair) for pair in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
