"""Parses JSON that clients send.

orjson reads an integer of more than 64 bits as the nearest float, so a text with many digits is parsed once more, with
the integers as they are. The check costs as much as the parsing, so it is left out where no such integer can matter.
"""

from __future__ import annotations

import json
from types import NoneType
from typing import Any

import orjson

# Makes a run of any digits one of zeros. Finding a fixed text is ten times faster than a regular expression.
_TO_ZEROS = bytes.maketrans(b"123456789", b"000000000")
# An integer that orjson does not read as such has at least 19 digits.
_LONG = b"0" * 19
_PLAIN = frozenset({str, int, bool, NoneType})


class UnreadableJson(ValueError):
    """The text cannot be parsed. The message continues a sentence about it: `is not JSON in UTF-8`."""


def parse_json(text: bytes | str) -> Any:
    """Parses JSON. Raises UnreadableJson."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UnreadableJson(_fault_of(error)) from None


def parse_exactly(text: bytes) -> Any:
    """Parses JSON with whole numbers of any size. Raises UnreadableJson."""
    return exact(parse_json(text), text)


def with_whole_numbers(given: dict[str, Any], text: bytes | str, variables: Any) -> dict[str, Any]:
    """Returns the request that was parsed from the text, with whole numbers of any size in its variables.

    Raises UnreadableJson. Variables that are neither objects, lists nor floats need no check.
    """
    if not variables or not isinstance(variables, dict) or _PLAIN.issuperset(map(type, variables.values())):
        return given
    parsed: dict[str, Any] = exact(given, text.encode() if isinstance(text, str) else text)
    return parsed


def exact(parsed: Any, text: bytes) -> Any:
    """Returns what orjson has parsed from the text, with whole numbers of any size. Raises UnreadableJson."""
    if _LONG not in text.translate(_TO_ZEROS):
        return parsed
    try:
        # orjson has refused what only this parser accepts, such as NaN, infinite numbers and halves of characters.
        return json.loads(text.decode())
    except RecursionError:
        raise UnreadableJson("is nested too deeply") from None


def sorted_json(value: Any) -> bytes:
    """Returns the same text for equal values only. Distinguishes all JSON values, also 1, 1.0 and true."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # An integer of more than 64 bits, which orjson never writes. So no other value has the same text.
        return json.dumps(value, sort_keys=True).encode()


def _fault_of(error: orjson.JSONDecodeError) -> str:
    if error.msg.startswith("depth limit"):
        return "is nested too deeply"
    if error.msg.startswith("number is infinity"):
        return "has a number that exceeds a 64-bit float"
    return "is not JSON in UTF-8"
