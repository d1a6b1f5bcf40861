"""Checks the social graph: both documents of a pair agree, and everybody in it is a member."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import require, wrong_in_batches

from . import circles, members, relation_jobs, relations
from .relations import RELATIONS

# What `repair` of a problem names.
COPY, LIST = "copy", "list"
_FIELDS = ("of", "to")
_CHANGING = "uncopied"


async def find_wrong_relations(db: Database) -> AsyncIterator[Document]:
    """Finds relations that their other document does not mirror, or that contradict themselves.

    A relation that is being changed is skipped, because a job finishes it. Each relation is read before its other
    document: versions only grow, so the other document must then have the version of the first, or a later one.

    Yields {_id, of, to, problem}, with `repair` if it can be repaired.
    """
    async for wrong in wrong_in_batches(db[RELATIONS.name].find({}, sort=[("_id", 1)]), partial(_wrong_in, db)):
        yield wrong


async def _wrong_in(db: Database, batch: list[Document]) -> AsyncIterator[Document]:
    for relation in batch:
        require(relation, _FIELDS)
    others = await relations.find_pairs(db, [(relation["to"], relation["of"]) for relation in batch])
    found = {(other["of"], other["to"]): other for other in others}
    people = await members.find_by_ids(db, [relation[end] for relation in batch for end in _FIELDS], {"circles": 1})
    for relation in batch:
        other = found.get((relation["to"], relation["of"]), {})
        for wrong in (*_wrong_alone(relation, people), *_wrong_copy(relation, other)):
            if await _is_unchanged(db, relation):
                yield {"_id": relation["_id"], "of": relation["of"], "to": relation["to"], **wrong}


async def _is_unchanged(db: Database, relation: Document) -> bool:
    """Returns whether the relation is as it was read. Otherwise, a change of it is what the check has seen."""
    if _CHANGING in relation:
        return False
    now = await relations.find_one(db, relation["of"], relation["to"])
    return now is None or all(now.get(name) == relation.get(name) for name in ("version", "copied", _CHANGING))


def _problem(text: str, repair: str | None = None) -> Document:
    return {"problem": text, "repair": repair}


def _wrong_alone(relation: Document, people: Mapping[str, Mapping[str, Any]]) -> Iterator[Document]:
    of, to = relation["of"], relation["to"]
    held = relation.get("circles", [])
    if of == to:
        yield _problem("a member has a relation with themselves")
    yield from (_problem(f"{subject} is no member") for subject in (of, to) if subject not in people)
    if len(set(held)) != len(held):
        yield _problem("a circle is named twice")
    if bool(held) != ("since" in relation):
        yield _problem("`since` does not agree with the circles")
    if relation.get("is_merged") and not held:
        yield _problem("it is merged, but nobody follows")
    missing = [name for name in held if name not in people.get(of, {}).get("circles", ())]
    if missing and of in people:
        yield _problem(f"the list of circles lacks {', '.join(missing)}", LIST)


def _wrong_copy(relation: Document, other: Document) -> Iterator[Document]:
    """Yields what is wrong between a relation and its other document, which was read later."""
    version, copied = relation.get("version", 0), other.get("copied", 0)
    if copied < version:
        yield _problem("the other document lacks the latest change", COPY)
    if copied == version > 0 and any(other.get(name) != value for name, value in _mirrored(relation).items()):
        yield _problem("the other document has other circles, or another block", COPY)
    if other.get("version", 0) < relation.get("copied", 0):
        yield _problem("it has a copy of a change that the other document does not have")


def _mirrored(relation: Document) -> dict[str, Any]:
    """Returns the values that the other document must have."""
    change = relation_jobs.copy_of(relation)
    return {"follower": None, **change["$set"]}


async def mend_relation(db: Database, wrong: Document) -> None:
    """Repairs a problem that names its `repair`. The document of the member who decided is the right one."""
    relation = await relations.find_one(db, wrong["of"], wrong["to"])
    if relation is None:
        return
    if wrong["repair"] == COPY:
        await relation_jobs.copy(db, relation)
    elif wrong["repair"] == LIST:
        await circles.restore(db, relation["of"], relation.get("circles", []))
