"""Serving over HTTP, with one worker or several."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.supervisors import ChangeReload, Multiprocess

from portico.gateway.app import create_app
from portico.gateway.settings import Settings

_BACKLOG = 2048
# What is watched: links, where the project runs from its sources, which a watcher does not follow.
_ROOMS = [str(path.resolve()) for path in Path(__file__).parents[2].iterdir() if path.is_dir()]
_YOUNG_OBJECTS = 20_000
_STUCK_SECONDS = 60


class PortTaken(Exception):
    """The address cannot be listened on. The text says why."""


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any that is free. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Its connections have it from here: the kernel cuts off who takes nothing of what is sent.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STUCK_SECONDS * 1000)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError, TypeError) as error:
        # A TypeError is of a name that can be that of no host.
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise PortTaken(f"{host}:{port} cannot be listened on: {reason}.") from None
    listening.listen(_BACKLOG)
    listening.set_inheritable(True)
    return listening


def worker_app() -> Starlette:
    """The gateway of a process, which ends with the one that started it, also where that is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    app = create_app()
    _before_stopping(app.state.gateway.stop_streams)
    # The schema and the modules stay: to go through them again and again would find nothing. What a request makes is
    # almost all given back without the collector; it need not look after every few hundred objects.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    return app


def _before_stopping(stop: Callable[[], None]) -> None:
    """Has it done when the server is told to stop: it waits for every answer to end, and a stream does not by itself.

    Inside of a server that runs, whose own handlers go on to be called.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)

        def handle(received: int, frame: FrameType | None, handler: Any = handler) -> None:
            loop.call_soon_threadsafe(stop)
            handler(received, frame)

        if callable(handler):
            signal.signal(number, handle)


def _follow(parent: Any) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def protocols(settings: Settings) -> dict[str, Any]:
    """What speaks HTTP and WebSocket, and how."""
    return {
        "http": "httptools",
        "ws": "websockets-sansio",
        "ws_max_size": settings.max_body_bytes,
        "ws_ping_interval": settings.keep_alive_seconds,
        "ws_ping_timeout": settings.keep_alive_seconds,
        # What is sent is short, and what is received must not become large by being unpacked.
        "ws_per_message_deflate": False,
    }


def serve(settings: Settings, listening: socket.socket, *, workers: int, reload: bool) -> None:
    """Serves until it is told to stop. Requests under way then have `stop_seconds` to finish."""
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
        h11_max_incomplete_event_size=64 * 1024,
        **protocols(settings),
    )
    server = uvicorn.Server(config)
    if reload:
        ChangeReload(config, target=server.run, sockets=[listening]).run()
    elif workers > 1:
        Multiprocess(config, sockets=[listening]).run()
    else:
        server.run(sockets=[listening])
