"""Checks the social graph: both documents of a pair agree, and everybody in it is a member."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem
from portico.resolvers.writes.sweeps import require

from . import circles, members, relation_jobs, relations
from .relations import RELATIONS

# What is wrong, and what repairs it from the relation as it is then. The document of the member who decided is right.
_Mend = Callable[[Database, Document], Awaitable[None]]
_Wrong = tuple[str, _Mend | None]
_FIELDS = ("of", "to")
_CHANGING = "uncopied"


async def find_wrong_relations(db: Database) -> AsyncIterator[Problem]:
    """Finds relations that their other document does not mirror, or that contradict themselves.

    A relation that is being changed is skipped, because a job finishes it. Each relation is read before its other
    document: versions only grow, so the other document must then have the version of the first, or a later one.
    """
    found = db[RELATIONS.name].find({}, sort=[("_id", 1)])
    async for problem in Problem.all_in(found, partial(_wrong_in, db), Problem.named("relation of")):
        yield problem


async def _wrong_in(db: Database, batch: list[Document]) -> AsyncIterator[Problem]:
    for relation in batch:
        require(relation, _FIELDS)
    others = await relations.find_pairs(db, [(relation["to"], relation["of"]) for relation in batch])
    found = {(other["of"], other["to"]): other for other in others}
    people = await members.find_by_ids(db, [relation[end] for relation in batch for end in _FIELDS], {"circles": 1})
    for relation in batch:
        other = found.get((relation["to"], relation["of"]), {})
        if relation["_id"] != relations.key_of(relation["of"], relation["to"])["_id"]:
            # Nothing reads it, so its other document belongs to another relation, or to none.
            wrong: list[_Wrong] = [("its `_id` is not that of its members", None)]
        else:
            wrong = [*_wrong_alone(relation, people), *_wrong_copy(relation, other)]
        for text, mend in wrong:
            if await _is_unchanged(db, relation):
                repair = None if mend is None else partial(_mend, db, relation, mend)
                yield Problem(f"relation of {relation['of']} to {relation['to']}", text, repair)


async def _is_unchanged(db: Database, relation: Document) -> bool:
    """Returns whether the relation is as it was read. Otherwise, a change of it is what the check has seen."""
    if _CHANGING in relation:
        return False
    now = await relations.find_one(db, relation["of"], relation["to"])
    return now is None or all(now.get(name) == relation.get(name) for name in ("version", "copied", _CHANGING))


def _wrong_alone(relation: Document, people: Mapping[str, Mapping[str, Any]]) -> Iterator[_Wrong]:
    of, to = relation["of"], relation["to"]
    held = relation.get("circles", [])
    if of == to:
        yield "a member has a relation with themselves", None
    yield from ((f"{subject} is no member", None) for subject in (of, to) if subject not in people)
    if len(set(held)) != len(held):
        yield "a circle is named twice", None
    if bool(held) != ("since" in relation):
        yield "`since` does not agree with the circles", None
    if relation.get("is_merged") and not held:
        yield "it is merged, but nobody follows", None
    missing = [name for name in held if name not in people.get(of, {}).get("circles", ())]
    if missing and of in people:
        yield f"the list of circles lacks {', '.join(missing)}", _restore_circles


def _wrong_copy(relation: Document, other: Document) -> Iterator[_Wrong]:
    """Yields what is wrong between a relation and its other document, which was read later."""
    version, copied = relation.get("version", 0), other.get("copied", 0)
    if copied < version:
        yield "the other document lacks the latest change", relation_jobs.copy
    if copied == version > 0 and any(other.get(name) != value for name, value in _mirrored(relation).items()):
        yield "the other document has other circles, or another block", relation_jobs.copy
    if other.get("version", 0) < relation.get("copied", 0):
        yield "it has a copy of a change that the other document does not have", None


def _mirrored(relation: Document) -> dict[str, Any]:
    """Returns the values that the other document must have."""
    change = relation_jobs.copy_of(relation)
    return {"follower": None, **change["$set"]}


async def _mend(db: Database, wrong: Document, mend: _Mend) -> None:
    relation = await relations.find_one(db, wrong["of"], wrong["to"])
    if relation is not None:
        await mend(db, relation)


async def _restore_circles(db: Database, relation: Document) -> None:
    await circles.restore(db, relation["of"], relation.get("circles", []))
