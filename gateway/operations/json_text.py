"""Encodes answers as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
from bson import Binary, DBRef, Decimal128, ObjectId

from portico.schema.scalars import format_instant


def encode(payload: Any) -> bytes:
    """Returns the payload as JSON. BSON values that JSON cannot represent become strings.

    `JSON` fields can contain such values, if another program has written the documents.
    """
    return orjson.dumps(payload, default=_text_of, option=orjson.OPT_PASSTHROUGH_DATETIME)


def compact(encoded: bytes) -> bytes:
    """Returns the same bytes in no more memory than they need, for bytes that are kept.

    `orjson` returns them in the buffer that it wrote them to. It has 4 KiB or more, and eight times the length of a
    long text. Source: https://github.com/home-assistant/core/pull/181245.
    """
    return bytes(memoryview(encoded))


def _text_of(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, ObjectId | Decimal128):
        return str(value)
    if isinstance(value, bytes | Binary):
        return value.hex()
    if isinstance(value, DBRef):
        # The driver decodes any object with `$ref` and `$id` as a DBRef.
        return dict(value.as_doc())
    if isinstance(value, int):
        return str(int(value))
    return list(value) if isinstance(value, tuple) else repr(value)
