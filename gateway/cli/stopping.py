"""How a server stops: `/readyz` first, then the sockets, then what is under way."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import ChangeReload

from portico.gateway.http.connections import Connections
from portico.gateway.work.loop_watch import LoopWatch

from .admin import Admin
from .failures import line_of
from .lines import warn
from .starting import Lifespan, silent_logger

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

    from portico.gateway.app import Gateway

TICK_SECONDS = 0.1


class Server(uvicorn.Server):
    """A server of one process that drains before it stops.

    On SIGTERM, `/readyz` answers 503 for the seconds of `drain_seconds`, so that load balancers send no more requests.
    Meanwhile the gateway serves, and each answer closes its connection. Then the listening socket is closed without
    resetting a connection that waits in it, and the requests under way end. On Ctrl-C, or on a second signal, the
    gateway does not wait. Whenever it comes, Ctrl-C prints no traceback.

    `when_started` is called when the server serves. If the start fails, `run` raises the error of the gateway.
    """

    def __init__(self, config: uvicorn.Config, when_started: Callable[[], None] | None = None) -> None:
        super().__init__(config)
        self._when_started = when_started
        self._connections = Connections()
        self.server_state = self._connections
        self._signals: list[int] = []
        self._admin: Admin | None = None
        self._watch: LoopWatch | None = None
        # Of a worker: what its parent knows.
        self.shared: Shared | None = None

    @property
    def gateway(self) -> Gateway:
        gateway: Gateway = self.lifespan.state["gateway"]
        return gateway

    def run_reloaded(self, sockets: list[socket.socket] | None = None) -> None:
        """Runs in a process of its own. A failed start prints one line, and the next change of a file starts again."""
        try:
            self.run(sockets)
        except Exception as error:
            line = line_of(error)
            if self.started or line is None:
                raise
            warn(line, color="red")
            sys.exit(STARTUP_FAILURE)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.started and multiprocessing.parent_process() is not None:
            # A worker that starts may be busy for seconds. While it keeps the listening socket open, the kernel takes
            # connections that nobody will accept.
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self._signals.append(sig)
        super().handle_exit(sig, frame)
        # uvicorn raises them again when it has stopped. The second one would interrupt how Python handles the first.
        del self._captured_signals[1:]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            # See `without_ctrl_c`.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            threading.Thread(target=_stop_with, args=(parent,), daemon=True).start()
        self.lifespan = Lifespan(self.config)
        starting = asyncio.create_task(super().startup(sockets))
        while not (await asyncio.wait({starting}, timeout=TICK_SECONDS))[0]:
            if self.should_exit:
                # MongoDB may not answer for long. The end of the event loop closes what is open.
                starting.cancel()
                self._leave_lifespan()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        if self.started:
            self._watch = LoopWatch()
            if self.shared is not None:
                self.shared.serves.set()
        if self.started and self.gateway.state.settings.admin_address is not None:
            self._admin = Admin(self.gateway.admin_app(), self.gateway.state.settings, self.config.workers)
        if self.started and self._when_started is not None:
            self._when_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.gateway.begin_stop()
        self._connections.is_draining = True
        await self._drain()
        self.gateway.stop_streams()
        self._connections.is_closing = True
        self._accept_waiting(sockets or ())
        await super().shutdown(sockets)
        if self.force_exit:
            self._leave_lifespan()
        if self._admin is not None:
            await self._admin.close()
        if self._watch is not None:
            await self._watch.aclose()

    def _leave_lifespan(self) -> None:
        """Leaves the application to the end of the event loop, which cancels it. uvicorn would log that as an error."""
        lifespan: Any = self.lifespan
        lifespan.logger = silent_logger()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.gateway.state.settings.drain_seconds
        while self._waits() and loop.time() < end:  # noqa: ASYNC110 - a signal handler or another process ends it
            await asyncio.sleep(TICK_SECONDS)

    def _waits(self) -> bool:
        """Returns whether nobody has asked to stop at once, by Ctrl-C or a second signal.

        A worker gets SIGTERM from its parent, and also from a supervisor that signals all processes. So the parent says
        whether there was a second one.
        """
        if self.shared is None:
            return self._signals == [signal.SIGTERM]
        hurries = signal.SIGINT in self._signals or self.shared.hurries.is_set()
        return signal.SIGTERM in self._signals and not hurries

    def _accept_waiting(self, sockets: Sequence[socket.socket]) -> None:
        """Accepts the connections that the kernel has already taken: closing their socket would reset them."""
        loop = asyncio.get_running_loop()
        for listening in sockets:
            listening.setblocking(False)
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = listening.accept()
                    opening: Any = loop.create_task(loop.connect_accepted_socket(self._connection, accepted))
                    # Keeps the task alive until it ends, and lets the server wait for it.
                    self._connections.tasks.add(opening)
                    opening.add_done_callback(self._connections.tasks.discard)

    def _connection(self) -> asyncio.Protocol:
        made: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = made(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


def stop_when_hung_up() -> None:
    """Lets SIGHUP stop this process as SIGTERM does, unless it is ignored, as by `nohup`."""
    if os.name == "posix" and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


def _stop_with(parent: Any) -> None:
    """Stops this process when its parent has ended, even if the parent was killed. Nobody waits for it to drain."""
    parent.join()
    os.kill(os.getpid(), signal.SIGINT)


@contextlib.contextmanager
def without_ctrl_c() -> Iterator[None]:
    """Starts processes that serve. A terminal sends Ctrl-C to them, too; until they can handle it, this one ends them.

    A process inherits what its parent blocks.
    """
    # When multiprocessing starts its tracker, it unblocks what was blocked.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# uvicorn declares its class as a variable.
class Reloading(ChangeReload):  # type: ignore[misc, valid-type]
    """One process that serves, and is replaced when a source file changes."""

    def startup(self) -> None:
        with without_ctrl_c():
            super().startup()

    def restart(self) -> None:
        with without_ctrl_c():
            super().restart()


class Shared:
    """What a worker and its parent tell each other."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        # The worker serves. The parent also learns it of a worker that has died before it could be asked.
        self.serves: Event = context.Event()
        # The worker stops without draining.
        self.hurries: Event = context.Event()
        # The line that says why the worker cannot start.
        self.failure: Connection
        self.own_failure: Connection
        self.failure, self.own_failure = context.Pipe(duplex=False)
