"""Commands on the wire, and their events for the driver's listeners."""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self

import bson
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from portico.resolvers.documents import CODEC, Document

# The head of a message: the body of the command, or of the answer, follows.
HEAD = struct.Struct("<iiiiIB")
# Errors that close the connection: the server is no longer primary, is stopping, or requires a new authentication.
CLOSING_CODES = {91, 189, 391, 10058, 10107, 11600, 11602, 13435, 13436}
_OP_MSG = 2013
_MOST = 2**31 - 1
_numbers = itertools.count(1)


def message(command: Document) -> bytes:
    """Returns a command as a message. Raises what `bson.encode` raises."""
    body = bson.encode(command, codec_options=CODEC)
    return HEAD.pack(HEAD.size + len(body), next(_numbers) & _MOST, 0, _OP_MSG, 0, 0) + body


class CommandEvent:
    """Publishes a command to the driver's command listeners."""

    def __init__(
        self, listeners: Sequence[CommandListener], command: Document, address: tuple[str, int | None], database: str
    ) -> None:
        self._listeners = listeners
        self._started_at = time.monotonic()
        self._name = next(iter(command))
        self._about: dict[str, Any] = {
            "request_id": next(_numbers),
            "connection_id": address,
            "operation_id": None,
            "database_name": database,
        }
        started = CommandStartedEvent(command, **self._about)
        for listener in listeners:
            listener.started(started)

    @classmethod
    def begin(
        cls, listeners: Sequence[CommandListener], command: Document, address: tuple[str, int | None], database: str
    ) -> Self | None:
        """Publishes the beginning of a command. Returns None if nobody listens."""
        return cls(listeners, command, address, database) if listeners else None

    def end(self, answer: Document | None) -> None:
        """Publishes the end of the command. None: there was no reply."""
        took = timedelta(seconds=time.monotonic() - self._started_at)
        if answer is not None and answer["ok"]:
            succeeded = CommandSucceededEvent(took, answer, self._name, **self._about)
            for listener in self._listeners:
                listener.succeeded(succeeded)
            return
        failed = CommandFailedEvent(took, answer or {}, self._name, **self._about)
        for listener in self._listeners:
            listener.failed(failed)
