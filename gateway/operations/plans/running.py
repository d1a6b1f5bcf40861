"""The jobs of a run that are in flight, and the fields that wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from portico.loaders.batching import Siblings

from .places import Place
from .plan import FieldPlan
from .related import Keys, RelationEntry, place_of
from .values import close

Missing = Iterator[tuple[FieldPlan, Place]]
Finish = Callable[[Any], Any]


class Pending(NamedTuple):
    """An awaitable value for a place. `finish` completes the value; with None, the shape of the field does."""

    field: FieldPlan
    awaited: Awaitable[Any]
    here: Place
    finish: Finish | None = None


class Job(NamedTuple):
    """Work to await: the value of a field for its place, or a read for the relations of a level."""

    work: Awaitable[None]
    field: FieldPlan | None = None
    here: Place | None = None
    relations: Sequence[Sequence[RelationEntry]] = ()
    awaited: Any = None

    def close(self) -> None:
        """Closes the awaitable of the work. A task that is cancelled before its first step never awaits it."""
        if self.awaited is not None:
            close(self.awaited)

    def missing(self) -> Missing:
        """Yields the fields whose values come from this job, with their places."""
        if self.field is not None and self.here is not None:
            yield self.field, self.here
        for entries in self.relations:
            yield from places_of(entries)


class Running(dict[asyncio.Task[None], Job]):
    """The jobs in flight, by their tasks. `cancelled` are the jobs that were cancelled before their end."""

    def __init__(self, siblings: Siblings) -> None:
        super().__init__()
        self.cancelled: list[Job] = []
        self._siblings = siblings

    def start(self, jobs: Iterable[Job], then: Callable[[asyncio.Task[None]], None]) -> None:
        for job in jobs:
            task = asyncio.ensure_future(job.work)
            self[task] = job
            task.add_done_callback(then)

    def remove(self, task: asyncio.Task[None]) -> None:
        job = self.pop(task)
        if task.cancelled():
            job.close()

    async def run_alone(self, job: Job) -> None:
        """Runs the only job in flight. Its reads are sent at once, because no others can join their batch."""
        self._siblings.are_none = True
        try:
            await job.work
        except asyncio.CancelledError:
            self.cancelled.append(job)
            raise
        finally:
            self._siblings.are_none = False

    async def stop(self) -> None:
        running = dict(self)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self.cancelled += [job for task, job in running.items() if task.cancelled()]


def documents_of(loader: Any, keys: Keys, record: Any) -> Awaitable[Any]:
    """Reads the documents with these keys for their relations. Telemetry records it, if there is a record."""
    reading: Awaitable[Any] = loader.load_all(keys.number_of)
    if record is None:
        return reading
    fields = sorted({f"{field.parent.name}.{field.name}" for (field, *_), *_ in (each.entries for each in keys.groups)})
    recorded: Awaitable[Any] = record.batch(reading, fields, len(keys.number_of))
    return recorded


def places_of(relations: Iterable[RelationEntry]) -> Missing:
    for entry in relations:
        yield entry[0], place_of(entry)
