"""Parts of a run: reads whose result decides whether a change affects the run.

A change can affect what a part has read without changing what it has returned. Facets can be the same after a deletion,
and an account shows the same money before and after the note of a decided transfer is removed. So the reads of an
affected part are repeated, without the rest of the run, and their result is compared. Only if it is another one, the
run is affected.

Parts are what MongoDB computes, full-text searches, rows without keys, documents of which an answer shows less than it
reads (`schema/shown_values.py`), and what a domain reads with `as_part`, e.g. an account with the transfers that its
notes name.

While a part is repeated, its new reads follow changes like those of a run. If one affects these, it is repeated again.
Nothing is repeated before the run ends, because its end needs what the first reads have returned.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import Any

from .interests import ALL, Change
from .read_sets import PartRead, ReadSet, Shown

_AT_ONCE = 20
_SECONDS = 10.0


@dataclass
class Checks:
    """The repeated parts of a process. `equal` counts those whose result was the former one."""

    made: int = 0
    equal: int = 0
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def part(self, run: ReadSet, read: PartRead, shown: Shown | None = None) -> Part:
        """Returns a part of a run."""
        return Part(run, self, read, shown)


class Part:
    """A part of a run. `read` reads it into a read set. What `shown` returns of a result is compared; None: all."""

    __slots__ = ("_cause", "_checks", "_digest", "_has_ended", "_is_direct", "_read", "_run", "_shown", "_task", "own")

    def __init__(self, run: ReadSet, checks: Checks, read: PartRead, shown: Shown | None = None) -> None:
        self.own = run.of_part(self.affected)
        self._run = run
        self._checks = checks
        self._read = read
        self._shown = shown
        self._digest: bytes | None = None
        # The run is affected by what affects the part.
        self._is_direct = False
        # Whether the run has ended.
        self._has_ended = False
        self._cause: Change | None = None
        self._task: asyncio.Task[None] | None = None

    async def first(self) -> Any:
        """Reads the part for the first time. Returns the result."""
        result = await self._read(self.own)
        self._digest = self._digest_of(result)
        return result

    def finish(self, *, is_direct: bool) -> None:
        """Ends the first read. With `is_direct`, or if its result is not known, what affects it affects the run."""
        self._is_direct = self._is_direct or is_direct or self._digest is None
        self._has_ended = True
        self.own.finish()
        self._check_later()

    def release(self) -> None:
        """Drops what the part has read."""
        self.own.release()
        if self._task is not None:
            self._task.cancel()

    def affected(self, change: Change) -> None:
        self._cause = self._cause or change
        self._is_direct = self._is_direct or change.kind == ALL
        self._check_later()

    def _check_later(self) -> None:
        if self._cause is None:
            return
        if self._is_direct:
            self._run.affected(self._cause)
        elif self._has_ended and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._check())

    async def _check(self) -> None:
        """Repeats the part until no change affects it, or its result is another one."""
        cause = self._cause
        try:
            while self._cause is not None and not self._is_direct:
                cause, self._cause = self._cause, None
                if not await self._is_equal():
                    self._is_direct, self._cause = True, cause
        except Exception:  # noqa: BLE001 - the run says what fails
            self._is_direct, self._cause = True, cause
        finally:
            self._task = None
        self._check_later()

    async def _is_equal(self) -> bool:
        """Repeats the part once. Returns whether its result is the former one, and follows the new reads then."""
        own = self._run.of_part(self.affected)
        is_equal = False
        try:
            async with self._checks.slots, asyncio.timeout(_SECONDS):
                result = await self._read(own)
            self._checks.made += 1
            own.finish()
            is_equal = (
                self._digest_of(result) == self._digest and own.is_whole and own.is_repeatable and not own.reads_clock
            )
        finally:
            if is_equal:
                own, self.own = self.own, own
                self._checks.equal += 1
            own.release()
        return is_equal

    def _digest_of(self, result: Any) -> bytes:
        compared = result if self._shown is None else self._shown(result)
        return hashlib.blake2b(repr(compared).encode(errors="surrogatepass"), digest_size=16).digest()
