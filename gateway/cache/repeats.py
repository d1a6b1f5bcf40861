"""Requests that have the bytes of an earlier one, and are answered from the cache without being parsed.

Clients that poll send the same bytes again and again, and parsing them takes most of the time of such an answer.

1. A connection offers to remember a request whose bytes arrived alone and in one piece, by an empty entry in its scope.
   Where such bytes arrive again between two requests, also on another connection, they are the same request.
2. If the answer comes from the cache, the endpoint fills the entry. It does not for requests with an id of their own,
   which do not come again, and for those that an allowance, telemetry or the log must see. Middleware of a domain must
   see all requests, so the entry is removed before it.
3. The connection remembers the response that it sends, with its compressed body.
4. When the bytes come again, the fence is asked as for every request. If it has passed, the answer is still kept, and
   its token need not be checked again, the response is sent. Otherwise the bytes are parsed as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar
from weakref import ref

# The entry in the scope.
REPEATABLE = "portico.repeatable"
# The most bytes of a request that is remembered, and what it takes in memory besides them and its own body.
LONGEST, _REPEAT = 8_192, 1_500
Headers = Sequence[tuple[bytes, bytes]]


class Encoded(Protocol):
    """An answer that the cache keeps."""

    body: bytes


A = TypeVar("A", bound=Encoded)


class Repeatable(NamedTuple, Generic[A]):
    """A kept answer, for a caller whose token need not be checked before `good_until`, in seconds since 1970."""

    answer: A
    good_until: float
    request_id: str


class Repeat(Generic[A]):
    """The response to a request, without what differs each time: the id, and the headers of the server."""

    __slots__ = ("_after", "_answer", "_before", "_body", "_default", "_line", "_start", "good_until")

    def __init__(self, source: Repeatable[A], line: bytes, head: bytes, body: bytes) -> None:
        """`head` are the headers after those of the server. One of them has the id."""
        # An answer that is dropped takes no memory here.
        self._answer = ref(source.answer)
        self._line = line
        self._before, _, self._after = head.partition(source.request_id.encode())
        self._body = None if body is source.answer.body else body
        self.good_until = source.good_until
        # The headers of the server, which are others each second, and the beginning of a response with them.
        self._default: Headers | None = None
        self._start = b""

    @property
    def answer(self) -> A | None:
        """The answer, unless nobody keeps it any more."""
        return self._answer()

    def size(self, packet: bytes) -> int:
        return len(packet) + len(self._body or b"") + _REPEAT

    def response(self, answer: A, default: Headers, request_id: str) -> bytes:
        """Returns the whole response. `default` are the headers of the server."""
        if self._default is not default:
            self._default = default
            self._start = self._line + lines_of(default) + self._before
        body = answer.body if self._body is None else self._body
        return b"".join((self._start, request_id.encode(), self._after, body))


def lines_of(headers: Headers) -> bytes:
    """Returns headers as they are sent."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])
