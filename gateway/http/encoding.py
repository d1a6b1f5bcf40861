"""JSON out."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
from bson import Binary, DBRef, Decimal128, ObjectId

from portico.schema.scalars import format_instant


def encode(payload: Any) -> bytes:
    """Returns the payload as JSON. Values of BSON that JSON has no form for become texts: they can stand in `JSON` fields of
    documents that something else has written.
    """
    return orjson.dumps(payload, default=_text_of, option=orjson.OPT_PASSTHROUGH_DATETIME)


def _text_of(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, ObjectId | Decimal128):
        return str(value)
    if isinstance(value, bytes | Binary):
        return value.hex()
    if isinstance(value, DBRef):
        # The driver takes any object with a `$ref` and an `$id` for one.
        return dict(value.as_doc())
    if isinstance(value, int):
        return str(int(value))
    return list(value) if isinstance(value, tuple) else repr(value)
