"""Child processes: their cores, their start and end, and their CPU time."""

import os
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple

HOST = "127.0.0.1"
SECONDS_TO_STOP = 10
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Cores(NamedTuple):
    """The core of the measured server, and the core of everything else. With None, the kernel decides."""

    server: int | None
    rest: int | None


def share_out() -> Cores:
    """Return one core for the server and one for the rest, if the machine has two."""
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
    """Start a process with all its threads on that core. `env` is added to the environment of this process.

    The process leads a process group, so Ctrl-C does not reach it before the bench stops it.
    """
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})  # the child and its threads inherit it
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
    """Terminate the process. Kill it if it does not end in time."""
    process.terminate()
    try:
        process.wait(SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Stat(NamedTuple):
    parent: int
    ticks: int
    kernel_ticks: int


def read_stat(pid: int) -> Stat | None:
    """Return the parent and the CPU time of a process: user and system time, with its finished children."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may contain spaces
    user, kernel, children_user, children_kernel = map(int, fields[11:15])
    ticks = user + kernel + children_user + children_kernel
    return Stat(parent=int(fields[1]), ticks=ticks, kernel_ticks=kernel + children_kernel)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, to a hundredth of a second."""
    return sum(stat.ticks for stat in family(pid)) / TICKS_PER_SECOND


def kernel_seconds(pid: int) -> float:
    """Return the part of `cpu_seconds` that the kernel used."""
    return sum(stat.kernel_ticks for stat in family(pid)) / TICKS_PER_SECOND


def cpu_ns(pids: Iterable[int]) -> int:
    """Return the CPU time of all threads of these processes that still run, in nanoseconds."""
    tasks = (task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def tree(pid: int) -> set[int]:
    """Return a process and its descendants."""
    return set(_stats_of_tree(pid))


def family(pid: int) -> list[Stat]:
    """Return what the system knows of a process and its descendants."""
    return list(_stats_of_tree(pid).values())


def _stats_of_tree(pid: int) -> dict[int, Stat]:
    stats = {int(entry.name): read_stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {child for child, stat in stats.items() if stat and stat.parent in found}
    return {child: stat for child in found if (stat := stats.get(child))}
