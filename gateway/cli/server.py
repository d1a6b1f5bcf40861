"""Serves over HTTP, with one worker or several."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from portico.gateway.app import create_app
from portico.gateway.http.cors import cors_of
from portico.gateway.http.forwarded import Forwarded
from portico.gateway.logs import configure
from portico.gateway.settings import MAX_PORT, PREFIX, Settings, SettingsError, split_address

from .huge_pages import use_huge_pages
from .listening import PortTaken, bind, protocols, require_free
from .loops import handling_ctrl_c
from .stopping import Reloading, Server, stop_when_hung_up
from .workers import Workers

__all__ = ["PortTaken", "bind", "require_startable", "serve", "tune_process", "worker_app"]

# The folders that `--reload` watches. In a source checkout they are links, which a watcher does not follow.
_ROOMS = [str(path.resolve()) for path in Path(__file__).parents[2].iterdir() if path.is_dir()]
# Twice as many as the requests that run at a time have when their answers are complete.
_YOUNG_OBJECTS = 60_000
# Options of `mallopt`, from the header malloc.h of glibc.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGE_BLOCK, _MOST_FREE = 256 * 1024, 8 * 1024 * 1024


def require_startable(settings: Settings, workers: int, patience_seconds: float) -> None:
    """Checks what each worker needs to start. Raises SettingsError; PortTaken for a port of the address for operators.

    A worker that cannot start would be started again, forever.
    """
    cors_of(settings)
    if settings.admin_address is None:
        return
    host, port = split_address(settings.admin_address)
    if port + workers - 1 > MAX_PORT:
        raise SettingsError(
            f"{PREFIX}ADMIN_ADDRESS is {settings.admin_address}, so {workers} workers need ports above {MAX_PORT}."
        )
    require_free(host, port, workers, patience_seconds)


def worker_app() -> ASGIApp:
    """Creates the gateway of a process that serves."""
    # A start leaves next to no garbage, and looking for it takes a tenth of the time of a start.
    gc.disable()
    app = Forwarded(create_app())
    tune_process()
    return app


def tune_process() -> None:
    """Sets up the garbage collector and the allocator of a process that serves, when its gateway has been created.

    With Python's own thresholds, a collection of all objects would stop a worker with 10,000 live queries for 0.3 s.
    """
    # The schema and the modules are permanent, so the collector skips them.
    gc.freeze()
    # Reference counts free almost all objects of a request, so the garbage collector can run less often.
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    gc.enable()
    _give_back_memory()
    use_huge_pages()


def _give_back_memory() -> None:
    """Makes glibc return large blocks to the system as soon as they are free.

    It would do so with the first ones only, and then put larger and larger ones between small ones, where they stay.
    """
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt"):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_MMAP_THRESHOLD, _LARGE_BLOCK)
        set_option(_TRIM_THRESHOLD, _MOST_FREE)


def serve(
    settings: Settings,
    listening: socket.socket,
    *,
    workers: int,
    reload: bool,
    when_started: Callable[[], None],
    app: ASGIApp | None = None,
) -> None:
    """Serves until a signal stops it. Requests in flight then have `stop_seconds` to finish: see `stopping`.

    Args:     app: the application of `worker_app`, if this process serves. Other processes create their own.
              when_started: is called once, when a process serves. With `reload`, it is called before.
    Raises:   what the start of the gateway has raised; Failure if no worker can start.
    """
    if app is None:
        configure(settings)
        tune_process()
    config = _config(settings, app, workers=workers, reload=reload)
    if reload:
        when_started()
        Reloading(config, target=Server(config).run_reloaded, sockets=[listening]).run()
    elif workers > 1:
        Workers(config, [listening], when_started).run()
    else:
        stop_when_hung_up()
        with handling_ctrl_c():
            Server(config, when_started).run(sockets=[listening])


def _config(settings: Settings, app: ASGIApp | None, *, workers: int, reload: bool) -> uvicorn.Config:
    return uvicorn.Config(
        app or "portico.gateway.cli.server:worker_app",
        factory=app is None,
        interface="asgi3",
        # `Forwarded` does this.
        proxy_headers=False,
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
