"""Invariants, and the checks that find their violations.

A check passes over many documents. A damaged document is a problem of its own, and does not stop the check of the
others.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .documents import D, Database, in_batches
from .server_time import server_time
from .writes.sweeps import DAMAGED, describe_damage, is_outage

Repair = Callable[[], Awaitable[object]]
# Names a document for people, also one that lacks fields.
Subject = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class Problem:
    """A violation of an invariant. `repair` fixes it; None if the correct state is unknown.

    A problem with `is_open` can be a false alarm: other writers changed the documents during the check.
    """

    subject: str
    text: str
    repair: Repair | None = None
    is_open: bool = False

    async def mend(self) -> bool:
        """Repairs the problem and returns whether it could. An error counts as no. An outage raises its error."""
        if self.repair is None:
            return False
        try:
            await self.repair()
        except Exception as error:
            if is_outage(error):
                raise
            return False
        return True

    @staticmethod
    def named(kind: str, path: str = "_id") -> Subject:
        """Returns what names documents by their kind and the value of a field, or by their `_id` if they lack it."""

        def name_of(document: Mapping[str, Any]) -> str:
            return f"{kind} {document.get(path, document['_id'])}"

        return name_of

    @staticmethod
    async def all_in(
        documents: AsyncIterable[D],
        find: Callable[[list[D]], AsyncIterator[Problem]],
        subject: Subject,
        size: int = 500,
        *,
        repair: Callable[[D], Repair] | None = None,
    ) -> AsyncIterator[Problem]:
        """Yields what `find` finds wrong in the documents of a cursor, in batches of this size.

        A document that makes `find` fail is itself a problem with this subject, and what `repair` returns repairs it.
        """
        async for batch in in_batches(documents, size):
            for problem in await _problems_of(batch, find, subject, repair):
                yield problem


class NoProblem(Exception):
    """A check has yielded something other than a `Problem`."""


@dataclass(frozen=True)
class Invariant:
    """A condition that must always hold, and the check that finds its violations."""

    name: str
    check: Callable[[Database], AsyncIterator[Problem]]

    async def found(self, db: Database) -> AsyncIterator[Problem]:
        """Yields the violations. Raises what the check raises, and NoProblem if it yields something else."""
        async for problem in self.check(db):
            if not isinstance(problem, Problem):
                raise NoProblem(f"the check yielded {problem!r}. Yield a `portico.jobs.Problem`.")
            yield problem

    async def problems(self, db: Database) -> AsyncIterator[Problem]:
        """Yields the violations. A check that fails is a problem, too. An outage raises its error."""
        try:
            async for problem in self.found(db):
                yield problem
        except Exception as error:
            if is_outage(error):
                raise
            yield Problem("the check", f"it stopped: {describe_damage(error)}")


async def _problems_of(
    batch: list[D],
    find: Callable[[list[D]], AsyncIterator[Problem]],
    subject: Subject,
    repair: Callable[[D], Repair] | None,
) -> list[Problem]:
    try:
        return [problem async for problem in find(batch)]
    except DAMAGED as error:
        if len(batch) == 1:
            mend = None if repair is None else repair(batch[0])
            return [Problem(subject(batch[0]), describe_damage(error), mend)]
    # Check one by one to find the damaged document.
    return [problem for document in batch for problem in await _problems_of([document], find, subject, repair)]


def problems_with(document: D, find: Callable[[D], Iterable[Problem]], subject: Subject) -> list[Problem]:
    """Returns what `find` finds wrong in one document, like `Problem.all_in`."""
    try:
        return list(find(document))
    except DAMAGED as error:
        return [Problem(subject(document), describe_damage(error))]


async def mend_now(mend: Callable[..., Awaitable[object]], db: Database, *given: object) -> None:
    """Calls a repair function with the current time of the database server."""
    await mend(db, *given, now=await server_time(db))
