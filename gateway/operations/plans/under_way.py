"""What a run waits for, and whose values are missing for as long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from portico.loaders.batching import Loader, Siblings

from .places import Errors, Place
from .plan import FieldPlan
from .values import RelationEntry, close

Missing = Iterator[tuple[FieldPlan, Place]]


class Job(NamedTuple):
    """Something to wait for: a field's value for its place, or a read for the references of a level."""

    work: Awaitable[None]
    field: FieldPlan | None = None
    here: Place | None = None
    references: Sequence[RelationEntry] = ()
    awaited: Any = None

    def close(self) -> None:
        """Closes what the work waits for. A task that is cancelled before its first step never takes it on."""
        if self.awaited is not None:
            close(self.awaited)

    def missing(self) -> Missing:
        """Yields the fields whose values it is to bring, with their places."""
        if self.field is not None and self.here is not None:
            yield self.field, self.here
        yield from referring(self.references)


class Running(dict[asyncio.Task[None], Job]):
    """The jobs that have begun. `cut_off` are those that were not let come to their end."""

    def __init__(self, siblings: Siblings) -> None:
        super().__init__()
        self.cut_off: list[Job] = []
        self._siblings = siblings

    def begin(self, jobs: Iterable[Job], then: Callable[[asyncio.Task[None]], None]) -> None:
        for job in jobs:
            task = asyncio.ensure_future(job.work)
            self[task] = job
            task.add_done_callback(then)

    def ended(self, task: asyncio.Task[None]) -> None:
        job = self.pop(task)
        if task.cancelled():
            job.close()

    async def alone(self, job: Job) -> None:
        """Waits for the one thing that is under way; its reads need not wait for others to join them."""
        self._siblings.are_none = True
        try:
            await job.work
        except asyncio.CancelledError:
            self.cut_off.append(job)
            raise
        finally:
            self._siblings.are_none = False

    async def stop(self) -> None:
        running = dict(self)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self.cut_off += [job for task, job in running.items() if task.cancelled()]


def referring(references: Iterable[RelationEntry]) -> Missing:
    for field, _, answer, place in references:
        yield field, (place, answer, field.response_name, field.is_nullable, field.parent.name)


def levels(
    references: Iterable[RelationEntry], errors: Errors, context: Any
) -> dict[Loader[Any, Any], list[RelationEntry]]:
    """Returns the references that are still wanted, by what reads their documents."""
    related: dict[Any, list[RelationEntry]] = {}
    for reference in references:
        if not (errors.found and errors.covers(reference[3])):
            related.setdefault(reference[0].relation, []).append(reference)
    found: dict[Loader[Any, Any], list[RelationEntry]] = {}
    for relation, of_one in related.items():
        found.setdefault(relation.loader(context), []).extend(of_one)
    return found
