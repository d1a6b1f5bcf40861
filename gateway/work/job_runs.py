"""How the jobs of a process do: what they did, how often they failed, and which of them hang.

A failure is logged with its traceback the first time. While the same failure repeats, the log has one line at growing
intervals. After a failure, the job pauses for twice as long as after the one before, up to `LONGEST_PAUSE`. Two kinds
of failure do not lengthen the pause: an outage, because it ends without the job, and a `SweepFailed`, because the next
run has healthy documents to process that are marked meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from portico.gateway.logs import logger
from portico.gateway.outages import fault_code, log_fault
from portico.resolvers.declarations import Job
from portico.resolvers.writes.sweeps import SweepFailed

# In seconds.
LONGEST_PAUSE = 60.0
# Jobs do a bounded amount of work. The longest wait of one is for a payment, which takes 30 seconds.
HANGS_AFTER = 60.0
_FIRST_INTERVAL, _LONGEST_INTERVAL = 1.0, 600.0
# The exponent of the pause. Larger powers exceed every pause.
_MOST_DOUBLINGS = 20


@dataclass
class JobRuns:
    """The runs of one job in this process. `begun` is the monotonic time at which the current run began."""

    name: str
    runs: int = 0
    failures: int = 0
    done: int = 0
    begun: float | None = None
    _in_a_row: int = 0
    _known: object = None
    _interval: float = _FIRST_INTERVAL
    _logged: float = 0.0

    @property
    def running_seconds(self) -> float:
        """How long the current run has taken; 0 between two runs."""
        return 0.0 if self.begun is None else time.monotonic() - self.begun

    @property
    def is_failing(self) -> bool:
        """Whether the latest runs failed by an error that a pause may cure."""
        return self._in_a_row > 0

    def pause(self, seconds: float) -> float:
        """Returns the seconds until the next run of a job that runs every `seconds`."""
        return max(seconds, min(seconds * 2.0 ** min(self._in_a_row, _MOST_DOUBLINGS), LONGEST_PAUSE))

    def succeeded(self, done: int) -> None:
        self.runs += 1
        self.done += done
        self._in_a_row, self._known = 0, None

    def failed(self, error: Exception) -> None:
        """Counts and logs a run that failed."""
        self.runs += 1
        self.failures += 1
        if isinstance(error, SweepFailed):
            self.done += error.done
            self._in_a_row = 0
        elif fault_code(error) == "INTERNAL":
            self._in_a_row += 1
        else:
            log_fault("job failed", error, job=self.name)
            return
        self._log(error)

    def _log(self, error: Exception) -> None:
        now, cause = time.monotonic(), _cause_of(error)
        if cause != self._known:
            self._known, self._interval, self._logged = cause, _FIRST_INTERVAL, now
            logger().error("job failed", job=self.name, exc_info=error)
        elif now - self._logged >= self._interval:
            self._interval, self._logged = min(self._interval * 2, _LONGEST_INTERVAL), now
            logger().error("job fails again", job=self.name, failures=self.failures, error=_text_of(error))

    @contextlib.contextmanager
    def running(self, work: asyncio.Task[Any] | None) -> Iterator[None]:
        """Measures a run. While it takes long, the log says repeatedly where it waits."""
        self.begun = time.monotonic()
        watch = _Watch(self, work)
        try:
            yield
        finally:
            watch.handle.cancel()
            self.begun = None


class _Watch:
    """Logs a run that takes longer than `HANGS_AFTER`, at intervals that double."""

    def __init__(self, runs: JobRuns, work: asyncio.Task[Any] | None) -> None:
        self._runs = runs
        self._work = work
        self._seconds = HANGS_AFTER
        self._loop = asyncio.get_running_loop()
        self.handle = self._loop.call_later(self._seconds, self._log)

    def _log(self) -> None:
        waits_at = [] if self._work is None else awaited_by(self._work)
        logger().warning(
            "job is still running", job=self._runs.name, seconds=round(self._runs.running_seconds), waits_at=waits_at
        )
        self.handle = self._loop.call_later(self._seconds, self._log)
        self._seconds *= 2


@dataclass
class AllRuns:
    """The runs of all jobs of this process, by name."""

    by_job: dict[str, JobRuns] = field(default_factory=dict)

    def of(self, job: Job) -> JobRuns:
        return self.by_job.setdefault(job.name, JobRuns(job.name))


def awaited_by(task: asyncio.Task[Any]) -> Sequence[str]:
    """Returns where a task waits: "file:line function" of each coroutine, the outermost first."""
    found = []
    waiting: Any = task.get_coro()
    while (frame := _frame_of(waiting)) is not None:
        found.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        waiting = next((inner for name in _AWAITS if (inner := getattr(waiting, name, None)) is not None), None)
    return found


_AWAITS = ("cr_await", "gi_yieldfrom", "ag_await")
_FRAMES = ("cr_frame", "gi_frame", "ag_frame")


def _frame_of(waiting: object) -> FrameType | None:
    return next((frame for name in _FRAMES if (frame := getattr(waiting, name, None)) is not None), None)


def _cause_of(error: Exception) -> object:
    """Returns what identifies a failure. The text does not, because it may name a time or a number."""
    return type(error), [(type(one), _place_of(one), getattr(one, "__notes__", ())) for one in _errors_of(error)]


def _place_of(error: Exception) -> tuple[str, int] | None:
    """Returns the file and the line that raised the error; None if it was not raised."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return frames[-1] if frames else None


def _text_of(error: Exception) -> str:
    """Returns the type and the text of the first error, with the document that it names."""
    first = _errors_of(error)[0]
    return f"{type(first).__name__}: {' '.join([str(first), *getattr(first, '__notes__', ())])}"


def _errors_of(error: Exception) -> Sequence[Exception]:
    return error.exceptions if isinstance(error, SweepFailed) else (error,)
