"""Serves over HTTP, with one worker or several."""

from __future__ import annotations

import functools
import gc
import os
import socket
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.supervisors import ChangeReload

from portico.gateway.app import create_app
from portico.gateway.http.connections import HttpConnection
from portico.gateway.settings import Settings

from .stopping import Server, Workers

_BACKLOG = 2048
# The folders that `--reload` watches. In a source checkout they are links, which a watcher does not follow.
_ROOMS = [str(path.resolve()) for path in Path(__file__).parents[2].iterdir() if path.is_dir()]
_YOUNG_OBJECTS = 20_000
_STUCK_SECONDS = 60


class PortTaken(Exception):
    """The gateway cannot listen on the address. The text says why."""


def bind(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Port 0 selects a free port. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Connections inherit it: the kernel disconnects a client that reads nothing of what is sent.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STUCK_SECONDS * 1000)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError, TypeError) as error:
        # A TypeError means that the name cannot be a host's.
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise PortTaken(f"cannot listen on {host}:{port}: {reason}.") from None
    listening.listen(_BACKLOG)
    listening.set_inheritable(True)
    return listening


def worker_app() -> Starlette:
    """Creates the gateway of a process that serves."""
    app = create_app()
    # The schema and the modules are permanent, so the garbage collector skips them. Reference counts free almost all
    # objects of a request, so the collector can run less often.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    return app


def protocols(settings: Settings) -> dict[str, Any]:
    """Returns uvicorn's options for HTTP and WebSocket."""
    return {
        "http": functools.partial(HttpConnection, header_seconds=settings.header_seconds),
        "ws": "websockets-sansio",
        "ws_max_size": settings.max_body_bytes,
        "ws_ping_interval": settings.keep_alive_seconds,
        "ws_ping_timeout": settings.keep_alive_seconds,
        # Messages that are sent are short. A received message must not grow when it is decompressed.
        "ws_per_message_deflate": False,
    }


def serve(settings: Settings, listening: socket.socket, *, workers: int, reload: bool) -> None:
    """Serves until a signal stops it. Requests in flight then have `stop_seconds` to finish: see `stopping`."""
    config = uvicorn.Config(
        "portico.gateway.cli.server:worker_app",
        factory=True,
        workers=workers,
        reload=reload,
        reload_dirs=_ROOMS if reload else None,
        loop="uvloop" if os.name == "posix" else "auto",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=settings.stop_seconds,
        timeout_keep_alive=65,
        **protocols(settings),
    )
    server = Server(config)
    if reload:
        ChangeReload(config, target=server.run, sockets=[listening]).run()
    elif workers > 1:
        Workers(config, sockets=[listening]).run()
    else:
        server.run(sockets=[listening])
