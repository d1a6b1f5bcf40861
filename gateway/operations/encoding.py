"""The responses of streams, as JSON."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import orjson

from portico.resolvers.changes import Position

from .json_text import compact, encode
from .responses import Response

_DIGEST = 18


@dataclass(frozen=True)
class EncodedResponse:
    """A response of a stream, encoded once for all its receivers. The response that `is_last` ends its operation.

    `order` as in `Response`. `at` is the place of the event that it answers. One that `is_state` says what is, and not
    what has happened.
    """

    json: bytes
    is_last: bool
    order: int | None = None
    at: Position | None = None
    has_extensions: bool = False
    is_state: bool = False
    # The whole answer, if `json` has only what is new.
    whole: bytes | None = None

    @classmethod
    def of(cls, response: Response, at: Position | None = None, *, is_state: bool = False) -> EncodedResponse:
        json = compact(encode(response.payload))
        has_extensions = "extensions" in response.payload
        return cls(json, not response.has_begun, response.order, at, has_extensions, is_state)

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
    def digest(self) -> str:
        """What identifies a state, so that a client need not get it again."""
        return hashlib.blake2b(self.whole or self.json, digest_size=_DIGEST).hexdigest()

    @cached_property
    def shared(self) -> dict[bytes, bytes]:
        """What receivers who have got the same former response have in common, by that."""
        return {}

    @cached_property
    def event(self) -> bytes:
        """The response as a server-sent event."""
        return event_of(self.json)


def event_of(json: bytes) -> bytes:
    """Returns a response as a server-sent event."""
    return b"event: next\ndata: " + json + b"\n\n"
