"""The identity of a process, by which another process of the same machine can see that it has ended.

A name has the machine, the process id and the time at which the process began. The machine is a hash of the boot, of
the namespace of process ids and of the host name. So names of other machines and containers are never taken for one's
own, and the id of a process that has ended can be used again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from portico.resolvers.writes.idempotency import Process

_PROC = Path("/proc")
# States in which a process runs no more, and its parent has not asked for its status.
_ENDED = {"Z", "X"}


def this_process() -> Process:
    """Returns this process, which sees whether others of its machine have ended. Where it cannot know, it says no."""
    machine = _machine()
    began = None if machine is None else _state_of(os.getpid())
    if began is None:
        return Process()

    def is_gone(name: str) -> bool:
        place, _, rest = name.partition(".")
        pid, _, start = rest.partition(".")
        return place == machine and pid.isdecimal() and _has_ended(int(pid), start)

    return Process(f"{machine}.{os.getpid()}.{began[1]}", is_gone)


def _machine() -> str | None:
    """Returns the name of the machine, or of the container; None where it is not known."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return None
    text = f"{boot} {namespace} {os.uname().nodename}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _has_ended(pid: int, start: str) -> bool:
    # The folders of processes of other users can be hidden, so they do not prove that a process has ended.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    state = _state_of(pid)
    return state is not None and (state[0] in _ENDED or state[1] != start)


def _state_of(pid: int) -> tuple[str, str] | None:
    """Returns the state of a process, and when it began, in ticks since the boot; None if that cannot be read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name of the program is in parentheses, and can hold any character. The start is the 22nd value.
        values = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return values[0], values[19]
    return None
