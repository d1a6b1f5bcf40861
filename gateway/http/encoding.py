"""Encodes responses as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import orjson
from bson import Binary, DBRef, Decimal128, ObjectId

from portico.gateway.operations.execution import Response
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


@dataclass(frozen=True)
class EncodedResponse:
    """A response of a stream, encoded once for all its receivers. The response that `is_last` ends its operation.

    `order` as in `Response`.
    """

    json: bytes
    is_last: bool
    order: int | None = None

    @classmethod
    def of(cls, response: Response) -> EncodedResponse:
        return cls(compact(encode(response.payload)), is_last=not response.has_begun, order=response.order)

    def is_newer_than(self, order: int | None) -> bool:
        """Returns whether a subscriber who has got the state at this place needs the response."""
        return self.order is None or order is None or self.order > order

    @cached_property
    def event(self) -> bytes:
        """The response as a server-sent event."""
        return b"event: next\ndata: " + self.json + b"\n\n"


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
