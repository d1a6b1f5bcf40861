"""Child processes: on which core they run, how they start and end, and the processor time that they have used."""

import os
import socket
import subprocess
from pathlib import Path
from typing import IO, NamedTuple

HOST = "127.0.0.1"
SECONDS_TO_STOP = 10
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Cores(NamedTuple):
    """Which core the measured server has, and which one everything else. None leaves it to the kernel."""

    server: int | None
    rest: int | None


def share_out() -> Cores:
    """One core for the server and one for the rest, where there are two."""
    usable = sorted(os.sched_getaffinity(0))
    return Cores(usable[0], usable[1]) if len(usable) > 1 else Cores(None, None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def spawn(
    command: list[str],
    core: int | None,
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    stdout: IO[bytes] | int | None = None,
    stderr: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process whose threads all stay on that core. `env` is added to this process's own environment.

    It leads a process group, so an interrupt from the keyboard does not reach it before the bench stops it.
    """
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})  # a child inherits it from its first thread on
    try:
        return subprocess.Popen(
            command,
            env=os.environ | (env or {}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            process_group=0,
        )
    finally:
        os.sched_setaffinity(0, before)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, then make it end."""
    process.terminate()
    try:
        process.wait(SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Stat(NamedTuple):
    parent: int
    ticks: int


def read_stat(pid: int) -> Stat | None:
    """A process's parent and processor time, user and system, with that of the children it has waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces
    return Stat(parent=int(fields[1]), ticks=sum(map(int, fields[11:15])))


def cpu_seconds(pid: int) -> float:
    """The processor time of a process and all its descendants so far, to a hundredth of a second."""
    stats = {int(entry.name): read_stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    tree, size = {pid}, 0
    while len(tree) > size:
        size = len(tree)
        tree |= {child for child, stat in stats.items() if stat and stat.parent in tree}
    return sum(stat.ticks for child in tree if (stat := stats.get(child))) / TICKS_PER_SECOND
