"""Listening sockets, and the protocols that are spoken on them."""

from __future__ import annotations

import errno
import functools
import socket
import time
from typing import Any

from portico.gateway.http.backlog import Backlog
from portico.gateway.http.repeated import RepeatingConnection
from portico.gateway.http.sockets import SocketConnection
from portico.gateway.settings import Settings

_BACKLOG = 2048
_STUCK_SECONDS = 60
_POLL_SECONDS = 0.05
# How many bytes the kernel takes for a client before the client has room for them.
_KERNEL_BYTES = 256 * 1024


class PortTaken(Exception):
    """The gateway cannot listen on the address. The text says why."""

    def __init__(self, text: str, *, is_in_use: bool) -> None:
        super().__init__(text)
        self.is_in_use = is_in_use


def bind(host: str, port: int, patience_seconds: float = 0) -> socket.socket:
    """Returns a listening socket. Port 0 selects a free port.

    If another process listens there, tries again for `patience_seconds`. Raises PortTaken.
    """
    end = time.monotonic() + patience_seconds
    while True:
        try:
            return _bind(host, port)
        except PortTaken as error:
            if not error.is_in_use or time.monotonic() > end:
                raise
        time.sleep(_POLL_SECONDS)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Connections inherit it: the kernel disconnects a client that reads nothing of what is sent.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STUCK_SECONDS * 1000)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        # Connections inherit it. The kernel would take up to four megabytes, which count as memory of a container.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _KERNEL_BYTES)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError, TypeError) as error:
        # A TypeError means that the name cannot be a host's.
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        is_in_use = getattr(error, "errno", None) == errno.EADDRINUSE
        raise PortTaken(f"cannot listen on {host}:{port}: {reason}.", is_in_use=is_in_use) from None
    listening.listen(_BACKLOG)
    listening.set_inheritable(True)
    return listening


def bind_free(host: str, first_port: int, count: int) -> socket.socket:
    """Returns a listening socket on the first free one of these ports. Raises PortTaken if there is none."""
    for port in range(first_port, first_port + count - 1):
        try:
            return bind(host, port)
        except PortTaken:
            continue
    return bind(host, first_port + count - 1)


def require_free(host: str, first_port: int, count: int, patience_seconds: float = 0) -> None:
    """Raises PortTaken if one of these ports stays taken."""
    for port in range(first_port, first_port + count):
        bind(host, port, patience_seconds).close()


def protocols(settings: Settings) -> dict[str, Any]:
    """Returns uvicorn's options for HTTP and WebSocket."""
    backlog = Backlog(settings.max_unread_bytes, settings.read_seconds)
    return {
        "http": functools.partial(RepeatingConnection, header_seconds=settings.header_seconds, backlog=backlog),
        "ws": functools.partial(SocketConnection, backlog=backlog),
        "ws_max_size": settings.max_body_bytes,
        "ws_ping_interval": settings.keep_alive_seconds,
        "ws_ping_timeout": settings.keep_alive_seconds,
        # Messages that are sent are short. A received message must not grow when it is decompressed.
        "ws_per_message_deflate": False,
    }
