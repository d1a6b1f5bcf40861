"""Compares values as MongoDB does. None means that the answer is not known here, and the caller must assume either."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import bson
from bson import Decimal128, ObjectId
from bson.codec_options import CodecOptions

from portico.resolvers.documents import LENIENT_FOR_REPAIRS, Document

_OPTIONS: CodecOptions[Document] = LENIENT_FOR_REPAIRS
# The classes of values that MongoDB compares with each other, in its sort order. Values of other classes, such as
# arrays and nested documents, are compared for equality only.
_NULL, _NUMBER, _TEXT, _DOCUMENT, _ARRAY, _BINARY, _ID, _BOOLEAN, _DATE = range(9)
_CLASSES: Mapping[type, int] = {
    type(None): _NULL,
    int: _NUMBER,
    float: _NUMBER,
    bson.Int64: _NUMBER,
    Decimal128: _NUMBER,
    str: _TEXT,
    dict: _DOCUMENT,
    list: _ARRAY,
    bytes: _BINARY,
    ObjectId: _ID,
    bool: _BOOLEAN,
    datetime: _DATE,
}
ORDERED = {_NULL, _NUMBER, _TEXT, _ID, _BOOLEAN, _DATE}
# What stands for a byte that is not UTF-8 in a text of a change.
_REPLACED = "\ufffd"
# The types of `$type`, by the class of their values. Those of numbers are not told apart.
TYPES: Mapping[str, int] = {
    "null": _NULL,
    "string": _TEXT,
    "object": _DOCUMENT,
    "array": _ARRAY,
    "binData": _BINARY,
    "objectId": _ID,
    "bool": _BOOLEAN,
    "date": _DATE,
}
NUMBERS = {"double", "int", "long", "decimal"}
OBJECT_IDS = {ObjectId}
# The slot of its bytes, which the property `binary` returns: a page has a hundred of them.
_BYTES_OF: Callable[[Any], bytes] = vars(ObjectId).get("_ObjectId__id", ObjectId.binary).__get__
# Types of values that are equal if, and only if, MongoDB takes them for equal, among those of one type.
EXACT = {ObjectId, str, int, bool, datetime, type(None)}
# Values that a read returns as they were sent, whatever they are.
_STORED_ALIKE = {ObjectId, bool, type(None)}
_INT32 = 2**31
# Types of which no value is among the classes above.
OTHER_TYPES = {"minKey", "maxKey", "timestamp", "regex", "undefined", "symbol", "dbPointer", "javascript"}


def stored_form(value: Mapping[str, Any]) -> Document:
    """Returns the document with each value as a read would return it. Raises what `bson.encode` raises."""
    if type(value) is dict and _is_stored_alike(value):
        copied: Document = _copied(value)
        return copied
    return decoded(encoded(value))


def encoded(value: Mapping[str, Any]) -> bytes:
    """Returns the document as BSON. Equal bytes are equal documents. Raises what `bson.encode` raises."""
    return bson.encode(value)


def decoded(encoded: bytes) -> Document:
    """Returns an encoded document with each value as a read would return it."""
    return bson.decode(encoded, _OPTIONS)


def _is_stored_alike(value: Any) -> bool:
    """Returns whether a read would return the value as it is. Encoding and decoding it would take longer."""
    kind = type(value)
    if kind in _STORED_ALIKE:
        return True
    if kind is str:
        return bool(value.isascii())
    if kind is int:
        return bool(-_INT32 <= value < _INT32)
    if kind is list:
        return _STORED_ALIKE.issuperset(map(type, value)) or all(map(_is_stored_alike, value))
    return kind is dict and all(
        type(name) is str and name.isascii() and _is_stored_alike(below) for name, below in value.items()
    )


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {name: _copied(below) for name, below in value.items()}
    if type(value) is list:
        return list(value) if _STORED_ALIKE.issuperset(map(type, value)) else list(map(_copied, value))
    return value


def class_of(value: Any) -> int | None:
    """Returns the class of a value; None for a value of a rare type."""
    return _CLASSES.get(type(value))


def is_decimal(value: Any) -> bool:
    """Returns whether it is a decimal number, of which it is not known here how it compares with others."""
    return isinstance(value, Decimal128)


def is_type(value: Any, names: Sequence[Any]) -> bool | None:
    """Returns whether the value has one of these types of BSON."""
    kind = class_of(value)
    if kind is None or not all(isinstance(name, str) for name in names):
        return None
    wanted = set(names)
    if kind == _NUMBER:
        numbers = wanted & NUMBERS
        return "number" in wanted or (None if numbers and numbers != NUMBERS else bool(numbers))
    if wanted - TYPES.keys() - NUMBERS - OTHER_TYPES - {"number"}:
        return None
    return any(TYPES.get(name) == kind for name in wanted)


def equal(one: Any, other: Any) -> bool | None:
    """Returns whether MongoDB takes the values for equal."""
    kind = class_of(one)
    if kind is None or class_of(other) is None:
        return None
    if kind != class_of(other):
        return False
    if kind == _DOCUMENT:
        return list(one) == list(other) and _all(equal(one[name], other[name]) for name in one)
    if kind == _ARRAY:
        return len(one) == len(other) and _all(equal(a, b) for a, b in zip(one, other, strict=True))
    if kind in ORDERED:
        order = compare(one, other)
        return None if order is None else order == 0
    return bool(one == other)


def compare(one: Any, other: Any) -> int | None:
    """Returns -1, 0 or 1, in MongoDB's sort order."""
    kinds = class_of(one), class_of(other)
    if None in kinds or not ORDERED.issuperset(kinds):
        return None
    if kinds[0] != kinds[1]:
        return -1 if (kinds[0] or 0) < (kinds[1] or 0) else 1
    if kinds[0] == _NUMBER:
        return _compare_numbers(one, other)
    if kinds[0] == _TEXT and not (is_plain(one) and is_plain(other)):
        return None
    if kinds[0] == _NULL or one == other:
        return 0
    return -1 if one < other else 1


def is_comparable(one: Any, other: Any) -> bool | None:
    """Returns whether `$gt` and the like compare the two: both are of one class."""
    kinds = class_of(one), class_of(other)
    return None if None in kinds else kinds[0] == kinds[1]


def _compare_numbers(one: Any, other: Any) -> int | None:
    if isinstance(one, Decimal128) or isinstance(other, Decimal128):
        if isinstance(one, float) or isinstance(other, float):
            # The server rounds one of them.
            return None
        one, other = (v.to_decimal() if isinstance(v, Decimal128) else int(v) for v in (one, other))
        if any(not isinstance(v, int) and v.is_nan() for v in (one, other)):
            return None
    elif any(isinstance(v, float) and math.isnan(v) for v in (one, other)):
        return None
    return int(one > other) - int(one < other)


def is_plain(text: str) -> bool:
    """Returns whether all bytes of the text are known: Python then sorts it as MongoDB does."""
    return text.isascii() or not (_REPLACED in text or any("\ud800" <= letter <= "\udfff" for letter in text))


def _all(answers: Any) -> bool | None:
    found: bool | None = True
    for answer in answers:
        if answer is False:
            return False
        if answer is None:
            found = None
    return found


def index_key(value: Any) -> Any:
    """Returns a key under which equal values are found; None if there is none for this value, and for null.

    Different values can have the same key, e.g. 1 and true.
    """
    if type(value) is ObjectId or (type(value) is str and value.isascii()):
        return value
    kind = class_of(value)
    if kind is None or kind == _NULL:
        return None
    if kind in (_DOCUMENT, _ARRAY):
        pairs = value.items() if kind == _DOCUMENT else enumerate(value)
        parts = tuple((name, None if one is None else (index_key(one),)) for name, one in pairs)
        return None if any(part == (None,) for _, part in parts) else parts
    if kind == _TEXT:
        return value if is_plain(value) else None
    if isinstance(value, Decimal128):
        # Whether it equals a floating-point number is not known here.
        return None
    return value if kind != _NUMBER or value == value else None  # noqa: PLR0124 - NaN equals nothing


def row_key(value: Any) -> Any:
    """Returns the key of a document with this `_id`. Those without a key of their own share one.

    That of an object id is its bytes, which remember their hash. A page has a hundred of them.
    """
    if type(value) is ObjectId:
        return value.binary
    key = index_key(value)
    return "?" if key is None or isinstance(value, bytes) else key


def row_keys(values: Collection[Any]) -> frozenset[Any]:
    """Returns the keys of documents with these `_id`s. Most are object ids, so these are not looked at one by one."""
    if OBJECT_IDS.issuperset(map(type, values)):
        return frozenset(map(_BYTES_OF, values))
    return frozenset(map(row_key, values))


def have_keys(values: Collection[Any]) -> bool:
    """Returns whether equal values are found by a key, for each of these."""
    return OBJECT_IDS.issuperset(map(type, values)) or all(index_key(value) is not None for value in values)


def is_own(key: Any) -> bool:
    """Returns whether no two documents have this key of `row_key`, as 1 and true have."""
    if isinstance(key, tuple):
        return bool(key) and all(below is None or is_own(below[0]) for _, below in key)
    return isinstance(key, str | bytes) and key != "?"
