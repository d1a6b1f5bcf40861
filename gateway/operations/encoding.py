"""The responses of streams, as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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

    @classmethod
    def of(cls, response: Response, at: Position | None = None) -> EncodedResponse:
        json = compact(encode(response.payload))
        return cls(json, is_last=not response.has_begun, order=response.order, at=at)

    def is_newer_than(self, order: int | None) -> bool:
        """Returns whether a subscriber who has got the state at this place needs the response."""
        return self.order is None or order is None or self.order > order

    @cached_property
    def event(self) -> bytes:
        """The response as a server-sent event."""
        return b"event: next\ndata: " + self.json + b"\n\n"
