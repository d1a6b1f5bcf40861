"""Asks the primary for the time of its newest write by a `ping`.

This happens before each answer from the cache, so it takes no task, no future and no decoding: the message is always
the same, and the time is the last field of the reply. A reply of another form is decoded.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import NamedTuple

import bson
from bson import Timestamp

from portico.resolvers.documents import LENIENT, Document

from .links import Link, Links, Lost, Primary
from .messages import HEAD, CommandEvent

_OK = b"\x01ok\0" + struct.pack("<d", 1.0)
_OK_AT = HEAD.size + struct.calcsize("<i")
_NAME = b"\x11operationTime\0"
# The seconds of a time are its upper half, and it ends before the zero byte that ends the document.
_TIME = struct.Struct("<Q")
_TIME_AT = -1 - _TIME.size
_NAME_AT = _TIME_AT - len(_NAME)


class Pinged(NamedTuple):
    """The newest write of a primary, as `ordered` has its time."""

    primary: Primary
    newest: int


Then = Callable[[Pinged | Exception], None]


def ordered(time: Timestamp) -> int:
    """Returns a time of the database as a number. Later times are larger."""
    return time.time << 32 | time.inc


def newest_write(reply: bytes) -> int:
    """Returns the time of the newest write from the reply to a `ping`. Raises Lost for an error."""
    if reply.startswith(_OK, _OK_AT) and reply[_NAME_AT:_TIME_AT] == _NAME:
        found: int = _TIME.unpack_from(reply, len(reply) + _TIME_AT)[0]
        return found
    answer = _decoded(reply)
    if not answer["ok"]:
        raise Lost(answer.get("errmsg"))
    return ordered(answer["operationTime"])


def _decoded(reply: bytes) -> Document:
    answer: Document = bson.decode(memoryview(reply)[HEAD.size :], LENIENT)
    return answer


class Ping:
    """A `ping` under way, in the place of the future of a reply. `then` gets its result, or the error."""

    __slots__ = ("_event", "_is_done", "_link", "_links", "_then")

    def __init__(self, links: Links, link: Link, event: CommandEvent | None, then: Then) -> None:
        self._links = links
        self._link = link
        self._event = event
        self._then = then
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, reply: bytes) -> None:
        self._is_done = True
        primary = self._link.primary
        is_current = self._links.is_current(self._link)
        try:
            newest = newest_write(reply)
        except Exception as error:  # noqa: BLE001 - whatever the reply is, the time is not known
            self._end(error, None)
            return
        self._end(Pinged(primary, newest) if is_current else Lost(), reply)

    def set_exception(self, error: Exception) -> None:
        self._is_done = True
        # A late reply must not be taken for that to the next command. The links may be closing one after the other.
        self._link.close()
        asyncio.get_running_loop().call_soon(self._end, error, None)

    def _end(self, result: Pinged | Exception, reply: bytes | None) -> None:
        try:
            if self._event is not None:
                self._event.end(None if reply is None else _decoded(reply))
        finally:
            self._links.give_back(self._link)
            self._then(result)
