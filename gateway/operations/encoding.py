"""The responses of streams, as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import orjson

from portico.resolvers.changes import Position

from .json_text import compact, encode
from .responses import Response


@dataclass(frozen=True)
class EncodedResponse:
    """A response of a stream, encoded once for all its receivers. The response that `is_last` ends its operation.

    `order` as in `Response`. `at` is the place of the event that it answers.
    """

    json: bytes
    is_last: bool
    order: int | None = None
    at: Position | None = None
    has_extensions: bool = False

    @classmethod
    def of(cls, response: Response, at: Position | None = None) -> EncodedResponse:
        json = compact(encode(response.payload))
        has_extensions = "extensions" in response.payload
        return cls(json, not response.has_begun, response.order, at, has_extensions)

    def with_extension(self, name: str, value: str) -> bytes:
        """Returns the response with one more of its `extensions`."""
        if self.has_extensions:
            payload = orjson.loads(self.json)
            payload["extensions"][name] = value
            return encode(payload)
        return b'%b,"extensions":{"%b":%b}}' % (self.json[:-1], name.encode(), encode(value))

    def is_newer_than(self, order: int | None) -> bool:
        """Returns whether a subscriber who has got the state at this place needs the response."""
        return self.order is None or order is None or self.order > order

    @cached_property
    def event(self) -> bytes:
        """The response as a server-sent event."""
        return b"event: next\ndata: " + self.json + b"\n\n"
