"""Positions in lists: cursors as text, and the conditions for the rows behind a position.

A cursor holds the sort values and the `_id` of its row. It is bound to its sort and filter. A cursor that was made for
others, or was altered, is refused.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from types import NoneType
from typing import Any

import bson
from bson import Int64, ObjectId

from .documents import Document
from .errors import InvalidInput

_DIGEST = 12


def behind(keys: Sequence[tuple[str, int]], key: tuple[Any, ...], *, inclusive: bool) -> list[Document]:
    """Returns conditions, nearest first. For each row after `key` exactly one of them holds.

    Null sorts below every value, but comparisons with a value never match null, so null needs separate conditions.
    """
    found: list[Document] = []
    equal: Document = {}
    for (path, direction), value in zip(keys, key, strict=True):
        beyond: list[Document] = []
        if value is None:
            if direction > 0:
                beyond.append({**equal, path: {"$ne": None}})
        elif path == "_id":
            comparison = ("$gt" if direction > 0 else "$lt") + ("e" if inclusive else "")
            beyond.append({**equal, path: {comparison: value}})
        else:
            beyond.append({**equal, path: {"$gt" if direction > 0 else "$lt": value}})
            if direction < 0:
                beyond.append({**equal, path: None})
        found = beyond + found
        equal[path] = value
    return found


# The types of sort values. The server does not compare others, e.g. regular expressions.
_KEY_TYPES = {NoneType, bool, int, Int64, float, str, datetime, ObjectId}


def encode_cursor(binding: bytes, key: tuple[Any, ...]) -> str:
    body = bson.encode({str(number): value for number, value in enumerate(key)})
    digest = hashlib.blake2b(binding + body, digest_size=_DIGEST).digest()
    return urlsafe_b64encode(digest + body).rstrip(b"=").decode()


def decode_cursor(binding: bytes, length: int, cursor: str) -> tuple[Any, ...]:
    """Returns the key of this many values in the cursor. Raises InvalidInput if it has another binding or is altered.

    The digest detects mistakes. It needs no secret, because a key reveals nothing that the list does not show.
    """
    wrong = InvalidInput("`after` is not a cursor of this list with this filter and sort.", "after")
    try:
        body = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))[_DIGEST:]
        key = tuple(bson.decode(body).values())
    except (ValueError, bson.InvalidBSON):
        raise wrong from None
    if len(key) != length or any(type(value) not in _KEY_TYPES for value in key):
        raise wrong
    # Only the canonical text is accepted: base64 has several texts for the same bytes.
    if encode_cursor(binding, key) != cursor:
        raise wrong
    return key
