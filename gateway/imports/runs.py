"""Imports files of lines, plain or gzipped, in batches. Invalid records stop no others. An import can be repeated."""

from __future__ import annotations

import asyncio
import codecs
import gzip
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import orjson

from portico.gateway.clock import Clock
from portico.gateway.given_json import UnreadableJson, exact
from portico.resolvers.declarations import Resources
from portico.resolvers.documents import CollectionSpec, Database
from portico.resolvers.errors import DomainError, InvalidInput
from portico.resolvers.import_outcomes import Outcome, is_overtaken, outcome_of, refusal_of
from portico.resolvers.writes.retries import pause
from portico.resolvers.writes.sweeps import SweepFailed, is_outage

BATCH = 500
# The number of batches that are stored at the same time, so that the server is busy while the next batch is read.
IN_FLIGHT = 3
# Records that wait for their parents, or are retried, are in memory. A file with more that wait is out of order, or
# lacks the parents. Of more that were refused, the rest is not retried.
MAX_WAITING = 200_000
MAX_LINE = 16 * 1024 * 1024
# The pauses before retries, in seconds. A record is retried if another writer may have interfered. All of a run wait
# together, at its end: a record that refers to nothing looks the same, and must not hold up the others.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
# The pauses, in seconds, before a batch is stored again because the database was unreachable or timed out. The driver
# looks for a server in each attempt, too, so an election ends within them.
OUTAGE_PAUSES = (0.5, 2.0)
# A report of the progress costs more than to read a line.
_LINES_A_REPORT = 100
# The maximum number of characters in the reason for an invalid record.
_MAX_REASON = 500
_GZIP = b"\x1f\x8b"

# The file and line of a record, and the record.
Row = tuple[str, int, Any]
# Rows by their keys, in the order of the file.
Batch = dict[Hashable, Row]
# Parses one line, with its line end. Raises InvalidInput.
Parse = Callable[[bytes], Any]


def parse_json(line: bytes) -> Any:
    """Parses a line of JSON Lines. Raises InvalidInput."""
    try:
        return exact(orjson.loads(line), line)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"not JSON: {error.msg}, at character {error.pos + 1}") from None
    except UnreadableJson as error:
        raise InvalidInput(f"not JSON: it {error}") from None


@dataclass(frozen=True)
class Importer:
    """How one kind of record is read and stored.

    `parser` is called for each file, and returns the function that parses its lines in order; by default they are JSON.
    `formats` names what it can parse. `read` gets what a line was parsed to.

    `put(db, records, now=…)` stores a batch, and returns the outcomes. With `is_single`, it stores one record, and
    returns its outcome; a DomainError that it raises is the outcome, too.

    `key` returns the natural key of a record: a batch contains each key once. If no record needs an earlier one, set
    `is_parallel` to store several batches at the same time. If records name files, set `has_files`: `read` then gets
    the file that contains the record. With `has_files` or `has_resources`, `put` gets the resources of the domains.
    `awaits` names the kind of a record's parent; if records refer to others in several ways, `lacks` returns what is
    missing, for people. `configure` returns the importer for the given `options`, or raises ValueError. `finish` is
    called at the end of a run, when all records have their outcomes; the run reports a DomainError, and the damaged
    documents of a SweepFailed. `fills` is the collection whose documents have
    many index entries: indexes that only reads need are built at the end of the first import.
    """

    @dataclass(frozen=True)
    class Option:
        """A command-line option of an importer. `kind` is its Python type: str, a list of str, a Literal, …"""

        name: str
        kind: Any
        help: str
        metavar: str | None = None

    read: Callable[..., Any]
    key: Callable[[Any], Hashable]
    put: Callable[..., Awaitable[Sequence[Outcome] | Outcome]]
    is_parallel: bool = False
    has_files: bool = False
    has_resources: bool = False
    awaits: str = "category"
    lacks: Callable[[Any], str] | None = None
    finish: Callable[..., Awaitable[Any]] | None = None
    parser: Callable[[], Parse] = lambda: parse_json
    formats: str = "JSON Lines"
    options: Sequence[Option] = ()
    configure: Callable[..., Importer] | None = None
    fills: CollectionSpec[Any] | None = None
    is_single: bool = False

    def configured(self, given: Mapping[str, Any]) -> Importer:
        """Returns the importer with these options. Raises ValueError, with one line for the user."""
        return self if not given or self.configure is None else self.configure(**given)


@dataclass
class Summary:
    """How many records were created, changed, unchanged or failed."""

    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class BadRecord:
    """A record that was not imported. `line` counts from 1.

    Line 0 is what could not be done after the last record. `file` then says where.
    """

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.reason}"


@dataclass
class Import:
    """One run over some files.

    It calls `on_bad` with each invalid record, and `on_progress` with the number of bytes read since the last call.
    Some importers need `resources`.
    """

    db: Database
    importer: Importer
    clock: Clock
    on_bad: Callable[[BadRecord], None]
    on_progress: Callable[[int], None]
    resources: Resources | None = None
    summary: Summary = field(default_factory=Summary)
    _waiting: list[Row] = field(default_factory=list)
    _contested: list[Row] = field(default_factory=list)
    _awaited: set[Hashable] = field(default_factory=set)

    async def run(self, files: Sequence[Path]) -> Summary:
        """Imports the files in order. Raises OSError for a file that cannot be read."""
        in_flight: list[tuple[asyncio.Task[bool], Batch]] = []
        try:
            for file in files:
                for batch in self._batches(file):
                    await self._start_batch(batch, in_flight)
        finally:
            # Waits for all batches in flight, even if the run or one of them fails.
            ended = await asyncio.gather(*(task for task, _ in in_flight), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error
        await self._retry_waiting()
        if self.importer.finish is not None:
            await self._finish(self.importer.finish)
        return self.summary

    async def _finish(self, finish: Callable[..., Awaitable[Any]]) -> None:
        """Calls `finish`. Reports the documents that it could not finish like invalid records."""
        try:
            await self._patiently(finish)
        except Exception as error:
            if refusal_of(error) is None:
                raise
            failures = error.exceptions if isinstance(error, SweepFailed) else (error,)
            self.summary.counts["failed"] += error.count if isinstance(error, SweepFailed) else 1
            for failure in failures:
                refusal = cast("DomainError", refusal_of(failure))
                place = " ".join(getattr(failure, "__notes__", ())) or "At the end"
                self.on_bad(BadRecord(place, 0, _reason(refusal)))

    async def _start_batch(self, batch: Batch, in_flight: list[tuple[asyncio.Task[bool], Batch]]) -> None:
        """Stores a batch when a slot is free. Records with the same key keep the order of the file."""
        while len(in_flight) >= self._max_in_flight or any(batch.keys() & other.keys() for _, other in in_flight):
            await in_flight.pop(0)[0]
        in_flight.append((asyncio.create_task(self._store_batch(batch)), batch))
        # Otherwise, it would begin when the next one has been read.
        await asyncio.sleep(0)

    @property
    def _max_in_flight(self) -> int:
        return IN_FLIGHT if self.importer.is_parallel else 1

    def _batches(self, file: Path) -> Iterator[Batch]:
        return self._batched((str(file), line, record) for line, record in self._records(file))

    def _batched(self, rows: Iterable[Row]) -> Iterator[Batch]:
        batch: Batch = {}
        for row in rows:
            key = self._key(row)
            if len(batch) == BATCH or key in batch:
                yield batch
                batch = {}
            batch[key] = row
        if batch:
            yield batch

    def _records(self, file: Path) -> Iterator[tuple[int, Any]]:
        line = 0
        parse = self.importer.parser()
        beside = (file,) if self.importer.has_files else ()
        try:
            for line, text in enumerate(_lines(file, self.on_progress), start=1):
                if not text.strip():
                    continue
                try:
                    yield line, self.importer.read(parse(_require_whole(text)), *beside)
                except InvalidInput as error:
                    self._reject((str(file), line, None), _reason(error))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self._reject((str(file), line + 1, None), f"the rest of the gzipped file cannot be read: {error}")

    async def _store_batch(self, batch: Batch) -> bool:
        """Stores a batch. Returns whether any record was settled, so that waiting ones may find their parents."""
        # If a record waits, later records with its key wait, too, because the last one wins.
        ready: list[Row] = []
        for key, row in batch.items():
            if key in self._awaited:
                self._defer(row)
            else:
                ready.append(row)
        outcomes = await self._store(ready)
        for row, outcome in zip(ready, outcomes, strict=True):
            if is_overtaken(outcome) and len(self._contested) < MAX_WAITING:
                self._contested.append(row)
                self._awaited.add(self._key(row))
            else:
                self._settle(row, outcome)
        return any(outcome != "waiting" and not is_overtaken(outcome) for outcome in outcomes)

    def _settle(self, row: Row, outcome: Outcome) -> None:
        if isinstance(outcome, DomainError):
            self._reject(row, _reason(outcome))
        elif outcome == "waiting":
            self._defer(row)
        else:
            self.summary.counts[outcome] += 1

    async def _retry_contested(self) -> bool:
        """Retries the records that others may have interfered with. Returns whether any was settled."""
        found, self._contested, moved = self._contested, [], False
        waiting: list[Row] = []
        for number, seconds in enumerate(PAUSES, start=1):
            if not found:
                break
            await asyncio.sleep(seconds)
            rows, found = found, []
            outcomes = [outcome for batch in self._batched(rows) for outcome in await self._store([*batch.values()])]
            for row, outcome in zip(rows, outcomes, strict=True):
                if outcome == "waiting":
                    waiting.append(row)
                elif is_overtaken(outcome) and number < len(PAUSES):
                    found.append(row)
                else:
                    self._settle(row, outcome)
                    moved = True
        # Later records with their keys wait already.
        self._waiting = [*waiting, *self._waiting]
        return moved

    async def _store(self, rows: list[Row]) -> list[Outcome]:
        """Stores the rows together. If the database refuses that, stores each one alone. Returns their outcomes."""
        has_resources = self.importer.has_files or self.importer.has_resources
        more = {"resources": self.resources} if has_resources else {}
        records = [record for _, _, record in rows]
        try:
            return list(await self._patiently(self._put, records, **more))
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
        if len(rows) == 1:
            return [refusal]
        return [outcome for row in rows for outcome in await self._store([row])]

    async def _patiently(self, work: Callable[..., Awaitable[Any]], *given: Any, **more: Any) -> Any:
        """Calls a function with the database, and again after an outage: what an import stores can be repeated."""
        for seconds in OUTAGE_PAUSES:
            try:
                return await work(self.db, *given, now=self.clock.now(), **more)
            except Exception as error:
                if not is_outage(error):
                    raise
            await pause(seconds)
        return await work(self.db, *given, now=self.clock.now(), **more)

    async def _put(self, db: Database, records: Sequence[Any], **given: Any) -> list[Outcome]:
        """Calls the importer's `put`: for each record, or once for all. Returns the outcomes."""
        put: Callable[..., Awaitable[Any]] = self.importer.put
        if self.importer.is_single:
            return [await outcome_of(put(db, record, **given)) for record in records]
        return list(await put(db, records, **given))

    def _key(self, row: Row) -> Hashable:
        return self.importer.key(row[2])

    def _defer(self, row: Row) -> None:
        if len(self._waiting) == MAX_WAITING:
            self._reject(row, "too many records come before their parents: put parents first")
            return
        self._waiting.append(row)
        self._awaited.add(self._key(row))

    async def _retry_waiting(self) -> None:
        """Retries the records that others may have interfered with, and those that wait, until no more succeed."""
        while self._waiting or self._contested:
            moved = await self._retry_contested()
            waiting, self._waiting, self._awaited = self._waiting, [], set()
            for batch in self._batched(waiting):
                moved = await self._store_batch(batch) or moved
            if not moved and not self._contested:
                self._reject_waiting()

    def _reject_waiting(self) -> None:
        """Rejects records whose parents do not exist.

        If several records have the same key, rejects only the first of each such key, because the others may be valid.
        Otherwise rejects all.
        """
        firsts: dict[Hashable, Row] = {}
        for row in self._waiting:
            firsts.setdefault(self._key(row), row)
        behind = [row for row in self._waiting if row is not firsts[self._key(row)]]
        held_up = list(dict.fromkeys(map(self._key, behind)) or firsts)
        for key in held_up:
            row = firsts.pop(key)
            self._reject(row, self._missing(row[2]))
        self._waiting = [*firsts.values(), *behind]

    def _missing(self, record: Any) -> str:
        if self.importer.lacks is not None:
            return self.importer.lacks(record)
        return f"parent: there is no {self.importer.awaits} {record.parent!r}"

    def _reject(self, row: Row, reason: str) -> None:
        self.summary.counts["failed"] += 1
        self.on_bad(BadRecord(row[0], row[1], reason))


def _lines(file: Path, on_progress: Callable[[int], None]) -> Iterator[bytes]:
    """Yields the lines of a file, without a byte order mark at its beginning, and decompresses a gzipped file.

    Reports the bytes that are read from the file.
    """
    with file.open("rb") as raw:
        packed = raw.peek(2)[:2] == _GZIP
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw) if packed else raw)
        reported = number = 0
        if stream.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            stream.seek(0)
        # A longer line is cut at the limit.
        while text := stream.readline(MAX_LINE):
            rest = text
            while len(rest) == MAX_LINE and not rest.endswith(b"\n"):
                rest = stream.readline(MAX_LINE)
            yield text
            number += 1
            if number % _LINES_A_REPORT == 0:
                position = raw.tell()
                on_progress(position - reported)
                reported = position
        on_progress(raw.tell() - reported)


def _require_whole(line: bytes) -> bytes:
    """Returns the line unchanged. Raises InvalidInput if it was cut at the limit."""
    if len(line) == MAX_LINE and not line.endswith(b"\n"):
        raise InvalidInput(f"the line is longer than {MAX_LINE >> 20} MiB")
    return line


def _reason(error: DomainError) -> str:
    path = ".".join((*getattr(error, "path", ()), *getattr(error, "within", ())))
    reason = f"{path}: {error.message}" if path else error.message
    return reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}…"
