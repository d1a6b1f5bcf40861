"""Several processes that serve, and the one that starts, watches, replaces and stops them."""

from __future__ import annotations

import gc
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess, multiprocess

from portico.gateway.logs import logger

from .errors import Failure
from .failures import line_of
from .stopping import TICK_SECONDS, Server, Shared, without_ctrl_c

# How long a worker may take until it serves. On a busy machine, it cannot say for seconds that it lives.
_START_SECONDS = 120.0
# The pauses between the starts of a worker that cannot start.
_RESTART_SECONDS = 1.0
_MAX_RESTART_SECONDS = 30.0


class _Worker(multiprocess.Process):
    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.shared = Shared()
        self._start_ends = time.monotonic() + _START_SECONDS

    def is_alive(self, timeout: float = 5) -> bool:
        if self.shared.serves.is_set():
            return super().is_alive(timeout)
        return self.process.is_alive() and time.monotonic() < self._start_ends

    def start(self) -> None:
        with without_ctrl_c():
            super().start()

    @property
    def server(self) -> uvicorn.Server:
        if self._server is None:
            self._server = server = Server(self.config)
            server.shared = self.shared
        return self._server

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        # The parent replaces its workers one after the other.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # What a worker imports is permanent. `worker_app` turns the collector on again.
        gc.disable()
        try:
            super().target(sockets)
        except Exception as error:
            if self.server.started:
                raise
            line = line_of(error)
            if line is None:
                traceback.print_exc()
            self.shared.own_failure.send(line or "a worker cannot start. See the traceback above.")
            sys.exit(STARTUP_FAILURE)

    @property
    def failure(self) -> str | None:
        """Why it cannot start. Only the first call returns it."""
        return self.shared.failure.recv() if self.shared.failure.poll() else None


# uvicorn names the class of its workers nowhere else.
multiprocess.Process = _Worker  # type: ignore[misc]


class Workers(Multiprocess):
    """Several processes that serve, and are replaced when they die.

    If no worker has ever served, a failed start ends the gateway: its settings are wrong, or its database is not there.
    Later a worker can fail to start while the database has an outage. The other workers go on, and the start is tried
    again, with backoff.

    On SIGHUP, new workers replace all others, one after the other, e.g. after an update of the package. An outdated
    worker stops when its successor serves. It does not drain, because the others go on to accept requests. If a
    successor cannot start, the outdated workers stay.

    `when_started` is called when a worker serves.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], when_started: Callable[[], None]) -> None:
        super().__init__(config, sockets)
        self._when_started = when_started
        self._has_served = False
        self._pause = _RESTART_SECONDS
        self._next_start = 0.0
        # Of a restart: the workers to replace, the one that starts, and those that finish what is under way.
        self._outdated: list[_Worker] = []
        self._successor: _Worker | None = None
        self._retired: list[_Worker] = []

    def keep_subprocess_alive(self) -> None:
        if not self._has_served and any(worker.shared.serves.is_set() for worker in self._workers):
            self._has_served = True
            self._when_started()
        if not self._has_served:
            if not any(worker.exitcode == STARTUP_FAILURE for worker in self._workers):
                super().keep_subprocess_alive()
            else:
                self.should_exit.set()
            return
        for index, process in enumerate(self.processes):
            # The workers may get a signal, too, and end before this process handles its own.
            if self._stops() or process.is_alive(self.config.timeout_worker_healthcheck) or self._stops():
                continue
            process.kill()
            process.join()
            if isinstance(process, _Worker) and (failure := process.failure) is not None:
                logger().error("worker cannot start", error=failure)
            if process.exitcode != STARTUP_FAILURE:
                self._pause = _RESTART_SECONDS
            elif time.monotonic() < self._next_start:
                continue
            self._next_start = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _MAX_RESTART_SECONDS)
            self.processes[index] = multiprocess.Process(self.config, self.sockets)
            self.processes[index].start()
        if not self._stops():
            self._go_on_with_restart()

    def handle_hup(self) -> None:
        logger().info("restarting the workers")
        self._outdated = self._workers
        if self._successor is not None:
            # It can have loaded what is outdated now.
            self._retire(self._successor)
            self._successor = None

    def _go_on_with_restart(self) -> None:
        self._retired = [worker for worker in self._retired if worker.exitcode is None]
        # One that has died has a successor already.
        self._outdated = [worker for worker in self._outdated if worker in self.processes]
        successor = self._successor
        if successor is None:
            if self._outdated and not self._retired:
                self._successor = _Worker(self.config, self.sockets)
                self._successor.start()
        elif successor.shared.serves.is_set():
            self._successor = None
            self._install(successor)
        elif not successor.is_alive():
            self._successor, self._outdated = None, []
            successor.kill()
            successor.join()
            error = successor.failure or f"it does not serve within {_START_SECONDS:.0f} seconds, or was killed"
            logger().error("worker cannot start", error=error)

    def _install(self, successor: _Worker) -> None:
        if self._outdated:
            replaced = self._outdated.pop(0)
            self.processes[self.processes.index(replaced)] = successor
            self._retire(replaced)
        else:
            self._retire(successor)
        if not self._outdated:
            logger().info("restarted the workers")

    def _retire(self, worker: _Worker) -> None:
        worker.shared.hurries.set()
        worker.terminate()
        self._retired.append(worker)

    def run(self) -> None:
        """Serves until a signal. Raises Failure if no worker can start."""
        super().run()
        failures = [failure for worker in self._workers if (failure := worker.failure) is not None]
        if failures and not self._has_served:
            raise Failure(failures[0])

    @property
    def _workers(self) -> list[_Worker]:
        return [process for process in self.processes if isinstance(process, _Worker)]

    def _stops(self) -> bool:
        return self.should_exit.is_set() or self._has_stop_signal()

    def _has_stop_signal(self) -> bool:
        """Returns whether there is a signal to stop that has not been handled."""
        return signal.SIGINT in self.signal_queue or signal.SIGTERM in self.signal_queue

    def handle_int(self) -> None:
        super().handle_int()
        self._hurry()

    def _hurry(self) -> None:
        for worker in self._workers:
            worker.shared.hurries.set()

    def join_all(self) -> None:
        for worker in self._workers:
            while worker.exitcode is None:
                worker.process.join(TICK_SECONDS)
                if self._has_stop_signal():
                    # It is the second one.
                    self._hurry()
        super().join_all()

    def terminate_all(self) -> None:
        # While this process keeps the socket open, the kernel takes connections that no worker will accept.
        for listening in self.sockets:
            listening.close()
        if self._successor is not None:
            self.processes.append(self._successor)
        super().terminate_all()
        self.processes += self._retired
