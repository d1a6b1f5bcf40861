"""A proxy to MongoDB whose connections can be cut, blocked or muted, and which can hide that a node knows sessions."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret

# How a node says that it knows sessions, and the same number of bytes without a meaning.
_SESSIONS, _HIDDEN = b"logicalSessionTimeoutMinutes", b"logicalSessionTimeoutMinuteX"


class Wire:
    """A local port that forwards to MongoDB, until the wire is cut or blocked."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._ends: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._is_cut = False
        self._is_open = threading.Event()
        self._is_open.set()
        self._is_audible = threading.Event()
        self._is_audible.set()
        self.hides_sessions = False
        self._held: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._ends) // 2

    def cut(self) -> None:
        """Closes all connections, and new ones immediately."""
        self._is_cut = True
        for end in list(self._ends):
            _end(end)
        self._is_open.set()
        self._is_audible.set()

    def restore(self) -> None:
        self._is_cut = False

    def cut_once(self) -> None:
        """Closes all connections. New ones work."""
        self.cut()
        self.restore()

    def block(self) -> None:
        """Keeps connections open, but forwards nothing."""
        self._held.clear()
        self._is_open.clear()

    def holds(self, text: str) -> bool:
        """Returns whether something with this text was sent since the wire was blocked."""
        return any(text.encode() in data for data in self._held)

    def unblock(self) -> None:
        self._is_open.set()

    def mute(self) -> None:
        """Keeps back what the server replies, until the wire is cut. Requests still reach the server."""
        self._is_audible.clear()

    @contextlib.contextmanager
    def opened(self) -> Iterator[Wire]:
        self._start(self._accept)
        try:
            yield self
        finally:
            _end(self._listening)
            self.cut()
            for thread in list(self._threads):
                thread.join(10)

    def _start(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._target_port))
                self._ends |= {near, far}
                self._start(self._carry, near, far, self._is_open)
                self._start(self._carry, far, near, self._is_audible)

    def _carry(self, source: socket.socket, target: socket.socket, may_pass: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if not self._is_open.is_set():
                    self._held.append(data)
                self._is_open.wait()
                may_pass.wait()
                target.sendall(data.replace(_SESSIONS, _HIDDEN) if self.hides_sessions else data)
        for end in (source, target):
            _end(end)
            self._ends.discard(end)


def _end(end: socket.socket) -> None:
    """Closes a socket, even if a thread waits for it."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextlib.contextmanager
def through_wire(settings: Settings) -> Iterator[tuple[Wire, Settings]]:
    """Opens a wire to the MongoDB of the settings. Yields the wire, and settings that use it."""
    found = re.search(r":(\d+)/", settings.mongodb_uri or "")
    assert found is not None
    with Wire(int(found[1])).opened() as wire:
        uri = f"mongodb://127.0.0.1:{wire.port}/?directConnection=true"
        yield wire, replace(settings, mongodb_uri=Secret(uri))
