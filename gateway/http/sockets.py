"""One WebSocket connection, which can send a text at once."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Opcode
from websockets.http11 import Request
from websockets.protocol import State

# An extension of ASGI in the scope of a socket. Its `send_now` is that of the connection.
_EXTENSION = "portico.text"
# The first byte of a frame with a whole text. Source: RFC 6455, section 5.2, also for the lengths.
_TEXT = 0x80 | Opcode.TEXT
_SHORT, _MEDIUM = 126, 1 << 16


class SocketConnection(WebSocketsSansIOProtocol):
    """A connection whose messages are whole texts, neither compressed nor masked.

    Thousands of subscribers get a message at the same time. The general way to send one takes a third of the time for
    its delivery: several coroutines, and a frame of any kind.
    """

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            self.scope["extensions"][_EXTENSION] = {"send_now": self.send_now}

    def send_now(self, text: bytes) -> bool:
        """Sends a text, and returns True. Returns False if `send` has to wait, or to fail."""
        if self.conn.state is not State.OPEN or not self.writable.is_set() or self.conn.extensions:
            return False
        length = len(text)
        if length < _SHORT:
            head = struct.pack("!BB", _TEXT, length)
        elif length < _MEDIUM:
            head = struct.pack("!BBH", _TEXT, 126, length)
        else:
            head = struct.pack("!BBQ", _TEXT, 127, length)
        self.transport.write(head + text)
        return True


def send_now_of(scope: Any) -> Callable[[bytes], bool]:
    """Returns `SocketConnection.send_now` of a socket. On another server than the gateway's own, it returns False."""
    extension = scope.get("extensions", {}).get(_EXTENSION, {})
    found: Callable[[bytes], bool] = extension.get("send_now", lambda _text: False)
    return found
