"""Positions in lists: cursors as text, and the conditions for the rows behind a position.

A cursor holds the sort values and the `_id` of its row. It is bound to its sort and filter. A cursor that was made for
others, or was altered, is refused.

Cursors are encrypted and authenticated with a key of the deployment. A position can be that of a row that the caller
may not see: the last one that a bounded list considered. Without the key, nobody can read such a position. Nobody can
make a cursor of their own either, and search a list for hidden rows by asking what follows it.

The next page is everything behind the position, as ranges, nearest first: for each key of the sort, the values of the
same type, the types that sort beyond them, and null (`behind`). Each range is one walk along the index, and they run
one after the other until the page is full. A list within a category is bound to the category and not to its
descendants, so a cursor stays valid when somebody adds a category there.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from types import NoneType
from typing import Any

import bson
from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId, Timestamp
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from .documents import LENIENT, Document
from .errors import InvalidInput
from .undecodable import bytes_of, is_undecodable, text_of

# Positions are filled up to a multiple of this many bytes, so that the length of a cursor does not show that of a key.
_BLOCK = 64
# Texts that are not valid UTF-8, as bytes, and objects are in an object of their own, under one of these names.
_UNDECODABLE, _OBJECT = "bytes", "object"


def behind(keys: Sequence[tuple[str, int]], key: tuple[Any, ...], *, inclusive: bool) -> list[Document]:
    """Returns conditions, nearest first. For each row after `key` exactly one of them holds.

    The server sorts values of all types, and compares only values of alike types. So null, and the types that sort
    beyond the type of a value, need separate conditions. So does NaN: it sorts before all other numbers, and is neither
    below nor above them.
    """
    found: list[Document] = []
    equal: Document = {}
    for (path, direction), value in zip(keys, key, strict=True):
        beyond: list[Document] = []
        if value is None:
            if direction > 0:
                beyond.append({**equal, path: {"$ne": None}})
        else:
            beyond += [{**equal, path: wanted} for wanted in _alike(value, direction, inclusive and path == "_id")]
            beyond.append({**equal, path: {"$type": _types_beyond(value, direction)}})
            if direction < 0 and path != "_id":
                beyond.append({**equal, path: None})
        found = beyond + found
        # An object would be read as a condition if its fields are named like operators.
        equal[path] = {"$eq": value} if isinstance(value, dict) else value
    return found


def _alike(value: object, direction: int, inclusive: bool) -> list[Document]:
    """Returns conditions for the values of alike types that come after the value."""
    if _is_nan(value):
        return ([{"$eq": value}] if inclusive else []) + ([{"$gte": -math.inf}] if direction > 0 else [])
    comparison = ("$gt" if direction > 0 else "$lt") + ("e" if inclusive else "")
    is_before_nan = direction < 0 and _PLACES[type(value)] == _ORDER.index(_NUMBERS)
    return [{comparison: value}, *([{"$eq": math.nan}] if is_before_nan else [])]


def _is_nan(value: object) -> bool:
    if isinstance(value, Decimal128):
        return value.to_decimal().is_nan()
    return isinstance(value, float) and math.isnan(value)


class _Object(dict[str, Any]):
    """A sort value that is an object. Positions are hashed."""

    def __hash__(self) -> int:  # type: ignore[override]  # Nobody changes it.
        return hash(repr(self))


# The groups of alike types, in the order in which the server sorts them, without null and arrays.
# Source: MongoDB manual, "Comparison/Sort Order".
_NUMBERS, _TEXTS = ("double", "int", "long", "decimal"), ("string", "symbol")
_ORDER: Sequence[tuple[str, ...]] = (
    ("minKey",),
    _NUMBERS,
    _TEXTS,
    ("object",),
    ("binData",),
    ("objectId",),
    ("bool",),
    ("date",),
    ("timestamp",),
    ("regex",),
    ("maxKey",),
)
# The types of sort values, and their places in this order. The server does not compare regular expressions, and nobody
# stores the smallest and the largest key.
_PLACES: dict[type, int] = {
    **dict.fromkeys((int, Int64, float, Decimal128), _ORDER.index(_NUMBERS)),
    str: _ORDER.index(_TEXTS),
    **dict.fromkeys((bytes, Binary), _ORDER.index(("binData",))),
    ObjectId: _ORDER.index(("objectId",)),
    bool: _ORDER.index(("bool",)),
    **dict.fromkeys((datetime, DatetimeMS), _ORDER.index(("date",))),
    **dict.fromkeys((dict, _Object), _ORDER.index(("object",))),
    Timestamp: _ORDER.index(("timestamp",)),
}
_KEY_TYPES = {NoneType, *_PLACES}


def _types_beyond(value: object, direction: int) -> list[str]:
    """Returns the types that come after the type of the value, but for null."""
    place = _PLACES[type(value)]
    groups = _ORDER[place + 1 :] if direction > 0 else _ORDER[:place]
    return [name for group in groups for name in group]


def _storable(value: Any) -> Any:
    """Returns a sort value in the form that a cursor contains: text that is not valid UTF-8 as its bytes."""
    if isinstance(value, dict):
        return {_OBJECT: value}
    return {_UNDECODABLE: bytes_of(value)} if isinstance(value, str) and is_undecodable(value) else value


def _restored(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return text_of(value[_UNDECODABLE]) if _UNDECODABLE in value else _Object(value[_OBJECT])


class Cursors:
    """Converts positions to cursors and back, with a key of the deployment. A resource of the gateway.

    All gateways of a deployment have the same secret, so each reads the cursors of the others. The encryption is
    deterministic (AES-SIV, RFC 5297): a position of a list has one cursor. So equal requests get equal answers.
    """

    def __init__(self, secret: bytes) -> None:
        self._tags = hmac.digest(secret, b"tags", hashlib.sha512)
        self._cipher = AESSIV(hmac.digest(secret, b"cursors", hashlib.sha512))

    def tag(self, value: bytes) -> str:
        """Returns what only this deployment can make of a value: 32 hexadecimal digits."""
        return hmac.digest(self._tags, value, hashlib.sha256)[:16].hex()

    def encode(self, binding: bytes, key: tuple[Any, ...]) -> str:
        body = bson.encode({str(number): _storable(value) for number, value in enumerate(key)})
        sealed = self._cipher.encrypt(body + bytes(-len(body) % _BLOCK), [binding])
        return urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def decode(self, binding: bytes, length: int, cursor: str, name: str = "after") -> tuple[Any, ...]:
        """Returns the key of this many values in the cursor.

        `name` is that of the argument. Raises InvalidInput if it has another binding, is altered, or was made with
        another secret.
        """
        text = f"`{name}` is not a cursor of this list with this filter and sort."
        wrong = InvalidInput(text, name, code=InvalidInput.WRONG_FORMAT)
        try:
            sealed = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
            body = self._cipher.decrypt(sealed, [binding])
            values = bson.decode(body[: int.from_bytes(body[:4], "little")], LENIENT).values()
            key = tuple(map(_restored, values))
        except (ValueError, InvalidTag, bson.InvalidBSON):
            raise wrong from None
        if len(key) != length or any(type(value) not in _KEY_TYPES for value in key):
            raise wrong
        # Only the canonical text is accepted: base64 has several texts for the same bytes.
        if urlsafe_b64encode(sealed).rstrip(b"=").decode() != cursor:
            raise wrong
        return key
