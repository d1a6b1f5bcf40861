"""Lets one process of a machine look for the work of the jobs, so that the others send nothing while nothing happens.

The process on duty has a socket with a name that follows from the database. The system gives a name to one process, and
takes it back when that process ends. The others ask it from time to time, by a message that does not leave the machine.
If it has not answered for as long as a lease lasts, because it is suspended or busy, they look for work themselves: it
is the lease of a job that decides who runs it, and this only saves commands. The answer names the shared jobs that have
work, so that the others help. If a request wakes a job that is not shared, its process passes that on to the one on
duty.

Where the system has no such sockets, every process is on duty.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable

# The process, the user and the group of the sender of a message.
_CREDENTIALS = struct.Struct("3i")
_LONGEST = 4_096


class Duty:
    """The part of this process. Use it in one event loop, and close it at the end.

    Args:     work: identifies the work: the database and the jobs. Only processes with the same work share a duty.
              patience: for how many seconds an answer counts.
              wake: is called with the names of the shared jobs for which the process on duty has found work; in the
              process on duty, with the names of the jobs that others have woken.
              now: returns a time in seconds.
    """

    def __init__(
        self, work: str, patience: float, wake: Callable[[str], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._address = b"\0portico-jobs-" + hashlib.blake2b(work.encode(), digest_size=16).hexdigest().encode()
        self._patience = patience
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._now = now
        # At the start, another process is given time to answer.
        self._answered = now()
        self._socket: socket.socket | None = None
        self._is_on_duty = False
        self.at_work: set[str] = set()

    def is_ours(self) -> bool:
        """Returns whether this process looks for work now."""
        if not self._is_on_duty:
            self._look_for_duty()
        if self._is_on_duty or self._socket is None:
            return True
        with contextlib.suppress(OSError):
            self._socket.sendto(b"?", self._address)
        return self._now() - self._answered > self._patience

    def wake_on_duty(self, job: str) -> None:
        """Wakes a job of the process on duty, which has the lease of the job."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto(b"!" + job.encode(), self._address)

    def close(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        self._is_on_duty = False

    def _look_for_duty(self) -> None:
        """Takes the name if it is free. Leaves no socket where the system has none of this kind."""
        try:
            self._open()
        except (OSError, AttributeError):
            self.close()

    def _open(self) -> None:
        new = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            new.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            try:
                new.bind(self._address)
            except OSError:
                if self._socket is not None:
                    new.close()
                    return
                # A name by which the process on duty can answer.
                new.bind(b"")
            else:
                self._is_on_duty = True
        except BaseException:
            new.close()
            raise
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        self._socket = new
        self._loop.add_reader(new, self._receive, new)

    def _receive(self, own: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                message, notes, _, sender = own.recvmsg(_LONGEST, socket.CMSG_SPACE(_CREDENTIALS.size))
                if not any(_is_own_user(*note) for note in notes):
                    continue
                if self._is_on_duty and message.startswith(b"!"):
                    self._wake(message[1:].decode())
                elif self._is_on_duty and sender:
                    own.sendto(b"," + ",".join(sorted(self.at_work)).encode(), sender)
                elif not self._is_on_duty and message.startswith(b","):
                    self._answered = self._now()
                    self._wake_all(message[1:].decode().split(","))

    def _wake_all(self, jobs: Iterable[str]) -> None:
        for job in jobs:
            if job:
                self._wake(job)


def _is_own_user(level: int, kind: int, data: bytes) -> bool:
    """Returns whether the note of a message says that a process of this user has sent it."""
    is_note = level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) >= _CREDENTIALS.size
    return is_note and _CREDENTIALS.unpack_from(data)[1] == os.getuid()
