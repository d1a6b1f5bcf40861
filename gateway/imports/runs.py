"""Importing JSON Lines, plain or gzipped: in batches, every good record kept, every bad one named, safe to repeat."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import orjson

from portico.gateway.clock import Clock
from portico.resolvers.documents import Database
from portico.resolvers.domains import Resources
from portico.resolvers.errors import DomainError, InvalidInput
from portico.resolvers.import_outcomes import Outcome, is_overtaken, refusal_of

BATCH = 500
# So many batches are stored at once: the server works on several while the next is read.
IN_FLIGHT = 3
# A record that waits for its parent is kept in memory; a file with more of them has lost its order, or its parents.
MAX_WAITING = 200_000
MAX_LINE = 16 * 1024 * 1024
# Seconds. Where somebody else has just written the same, it is looked at again after each of these.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
# Characters of the reason for a bad record.
_MAX_REASON = 500
_GZIP = b"\x1f\x8b"

# A record with the file and the line it comes from.
Row = tuple[str, int, Any]


@dataclass(frozen=True)
class Option:
    """An option of an importer on the command line. `kind` is its Python type: str, a list of str, a Literal, …"""

    name: str
    kind: Any
    help: str
    metavar: str | None = None


@dataclass(frozen=True)
class Importer:
    """How one kind of record is read and stored.

    `key` is the natural key: a batch holds each once. Several batches are stored at once where `is_parallel`: where no
    record needs an earlier one. Records that name files `has_files`: `read` is given the file that they are in, and
    `put` the resources of the domains. `awaits` is what a record's parent is. `configure` makes the importer that
    follows the `options` which were given, and raises ValueError.
    """

    read: Callable[..., Any]
    key: Callable[[Any], Hashable]
    put: Callable[..., Awaitable[Sequence[Outcome]]]
    is_parallel: bool = False
    has_files: bool = False
    awaits: str = "category"
    options: Sequence[Option] = ()
    configure: Callable[..., Importer] | None = None

    def configured(self, given: Mapping[str, Any]) -> Importer:
        """The importer with these options. Raises ValueError, with a line for people."""
        return self if not given or self.configure is None else self.configure(**given)


@dataclass
class Summary:
    """What became of the records; `failed` is among the counts."""

    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class BadRecord:
    """A record that was not taken. `line` counts from 1."""

    file: str
    line: int
    reason: str


@dataclass
class Import:
    """One run over some files. `on_bad` is told each bad record, `on_progress` the bytes that have been read.

    `resources` are for records that name files.
    """

    db: Database
    importer: Importer
    clock: Clock
    on_bad: Callable[[BadRecord], None]
    on_progress: Callable[[int], None]
    resources: Resources | None = None
    summary: Summary = field(default_factory=Summary)
    _waiting: list[Row] = field(default_factory=list)
    _awaited: set[Hashable] = field(default_factory=set)

    async def run(self, files: Sequence[Path]) -> Summary:
        """Imports the files in order. Raises OSError for one that cannot be read."""
        under_way: list[tuple[asyncio.Task[bool], set[Hashable]]] = []
        try:
            for file in files:
                for batch in self._batches(file):
                    await self._begin(batch, under_way)
        finally:
            # Whatever ends the run, no batch is left half way.
            await asyncio.gather(*(task for task, _ in under_way))
        await self._put_waiting()
        return self.summary

    async def _begin(self, batch: list[Row], under_way: list[tuple[asyncio.Task[bool], set[Hashable]]]) -> None:
        """Begins to store a batch, once there is room. Records with one key are stored in the order of the file."""
        keys = {self._key(row) for row in batch}
        while under_way and (len(under_way) >= self._in_flight or any(keys & other for _, other in under_way)):
            await under_way.pop(0)[0]
        under_way.append((asyncio.create_task(self._put(batch)), keys))

    @property
    def _in_flight(self) -> int:
        return IN_FLIGHT if self.importer.is_parallel else 1

    def _batches(self, file: Path) -> Iterator[list[Row]]:
        return self._batched((str(file), line, record) for line, record in self._records(file))

    def _batched(self, rows: Iterable[Row]) -> Iterator[list[Row]]:
        batch: list[Row] = []
        keys: set[Hashable] = set()
        for row in rows:
            key = self._key(row)
            if len(batch) == BATCH or key in keys:
                yield batch
                batch, keys = [], set()
            batch.append(row)
            keys.add(key)
        if batch:
            yield batch

    def _records(self, file: Path) -> Iterator[tuple[int, Any]]:
        line = 0
        try:
            for line, text in enumerate(_lines(file, self.on_progress), start=1):
                if not text.strip():
                    continue
                try:
                    beside = (file,) if self.importer.has_files else ()
                    yield line, self.importer.read(orjson.loads(text), *beside)
                except orjson.JSONDecodeError as error:
                    self._bad((str(file), line, None), f"not JSON: {error.msg}, at character {error.pos + 1}")
                except InvalidInput as error:
                    self._bad((str(file), line, None), _reason(error))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self._bad((str(file), line + 1, None), f"the rest of the gzipped file cannot be read: {error}")

    async def _put(self, batch: list[Row]) -> bool:
        """Stores a batch. Returns whether anything in it could be stored, so that what waits may be tried again."""
        # Behind a record that waits, others with its key wait, too: the last of them is the one that stays.
        ready: list[Row] = []
        for row in batch:
            if self._key(row) in self._awaited:
                self._wait(row)
            else:
                ready.append(row)
        outcomes = await self._settled(ready)
        for row, outcome in zip(ready, outcomes, strict=True):
            if isinstance(outcome, DomainError):
                self._bad(row, _reason(outcome))
            elif outcome == "waiting":
                self._wait(row)
            else:
                self.summary.counts[outcome] += 1
        return any(outcome != "waiting" for outcome in outcomes)

    async def _settled(self, rows: list[Row]) -> list[Outcome]:
        """What becomes of the rows, in the end: what another import or an editor got at first is tried again."""
        outcomes = await self._stored(rows)
        for pause in PAUSES:
            again = [number for number, outcome in enumerate(outcomes) if is_overtaken(outcome)]
            if not again:
                break
            await asyncio.sleep(pause)
            found = await self._stored([rows[number] for number in again])
            for number, outcome in zip(again, found, strict=True):
                outcomes[number] = outcome
        return outcomes

    async def _stored(self, rows: list[Row]) -> list[Outcome]:
        """What becomes of the rows. Where the database refuses them together, each is stored by itself."""
        more = {"resources": self.resources} if self.importer.has_files else {}
        records = [record for _, _, record in rows]
        try:
            return list(await self.importer.put(self.db, records, now=self.clock.now(), **more))
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
        if len(rows) == 1:
            return [refusal]
        return [outcome for row in rows for outcome in await self._stored([row])]

    def _key(self, row: Row) -> Hashable:
        return self.importer.key(row[2])

    def _wait(self, row: Row) -> None:
        if len(self._waiting) == MAX_WAITING:
            self._bad(row, "its parent does not stand before it")
            return
        self._waiting.append(row)
        self._awaited.add(self._key(row))

    async def _put_waiting(self) -> None:
        """Tries what waited for its parent until nothing more finds one."""
        while self._waiting:
            waiting, self._waiting, self._awaited, moved = self._waiting, [], set(), False
            for batch in self._batched(waiting):
                moved = await self._put(batch) or moved
            if not moved:
                self._give_up()

    def _give_up(self) -> None:
        """Names the records that wait in vain: first those that others with their key wait behind, else all."""
        firsts: dict[Hashable, Row] = {}
        for row in self._waiting:
            firsts.setdefault(self._key(row), row)
        behind = [row for row in self._waiting if row is not firsts[self._key(row)]]
        held_up = list(dict.fromkeys(map(self._key, behind)) or firsts)
        for key in held_up:
            row = firsts.pop(key)
            self._bad(row, f"parent: there is no {self.importer.awaits} {row[2].parent!r}")
        self._waiting = [*firsts.values(), *behind]

    def _bad(self, row: Row, reason: str) -> None:
        self.summary.counts["failed"] += 1
        self.on_bad(BadRecord(row[0], row[1], reason))


def _lines(file: Path, on_progress: Callable[[int], None]) -> Iterator[bytes]:
    """The lines of a file, unpacked where it is gzipped; tells the bytes that were read of the file itself."""
    with file.open("rb") as raw:
        packed = raw.peek(2)[:2] == _GZIP
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw) if packed else raw)
        told = 0
        # A line without an end would be read whole; it is cut at the bound, and then is not JSON.
        while text := stream.readline(MAX_LINE):
            rest = text
            while len(rest) == MAX_LINE and not rest.endswith(b"\n"):
                rest = stream.readline(MAX_LINE)
            yield text
            position = raw.tell()
            on_progress(position - told)
            told = position
        on_progress(raw.tell() - told)


def _reason(error: DomainError) -> str:
    path = ".".join((*getattr(error, "path", ()), *getattr(error, "within", ())))
    reason = f"{path}: {error.message}" if path else error.message
    return reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}…"
