"""Positions in lists: cursors as text, and the conditions for the rows behind a position.

A cursor holds the sort values and the `_id` of its row. It is bound to its sort and filter. A cursor that was made for
others, or was altered, is refused.

Cursors are encrypted and authenticated with a key of the deployment. A position can be that of a row that the caller
may not see: the last one that a bounded list considered. Without the key, nobody can read such a position. Nobody can
make a cursor of their own either, and search a list for hidden rows by asking what follows it.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from types import NoneType
from typing import Any

import bson
from bson import Int64, ObjectId
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from .documents import Document
from .errors import InvalidInput

# Positions are filled up to a multiple of this many bytes, so that the length of a cursor does not show that of a key.
_BLOCK = 64


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


class Cursors:
    """Converts positions to cursors and back, with a key of the deployment. A resource of the gateway.

    All gateways of a deployment have the same secret, so each reads the cursors of the others. The encryption is
    deterministic (AES-SIV, RFC 5297): a position of a list has one cursor. So equal requests get equal answers.
    """

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESSIV(hmac.digest(secret, b"cursors", hashlib.sha512))

    def encode(self, binding: bytes, key: tuple[Any, ...]) -> str:
        body = bson.encode({str(number): value for number, value in enumerate(key)})
        sealed = self._cipher.encrypt(body + bytes(-len(body) % _BLOCK), [binding])
        return urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def decode(self, binding: bytes, length: int, cursor: str) -> tuple[Any, ...]:
        """Returns the key of this many values in the cursor.

        Raises InvalidInput if it has another binding, is altered, or was made with another secret.
        """
        wrong = InvalidInput("`after` is not a cursor of this list with this filter and sort.", "after")
        try:
            sealed = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
            body = self._cipher.decrypt(sealed, [binding])
            key = tuple(bson.decode(body[: int.from_bytes(body[:4], "little")]).values())
        except (ValueError, InvalidTag, bson.InvalidBSON):
            raise wrong from None
        if len(key) != length or any(type(value) not in _KEY_TYPES for value in key):
            raise wrong
        # Only the canonical text is accepted: base64 has several texts for the same bytes.
        if urlsafe_b64encode(sealed).rstrip(b"=").decode() != cursor:
            raise wrong
        return key
