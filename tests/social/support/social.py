"""Members for tests, and what they decide about each other."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from portico.gateway.clock import SystemClock
from portico.gateway.domains.social import graph
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound
from portico.resolvers.social import member_edits, relation_edits
from portico.resolvers.writes.marks import random_operation_id
from portico.schema.kinds import Kind

# The circle of members that follow each other only so that one of them follows the other.
FRIENDS = "friends"


def user_id(subject: str) -> str:
    return Kind.encode_id("User", subject)


def operation(now: datetime | None = None) -> dict[str, Any]:
    """The arguments of a write that nobody repeats."""
    return {"now": now or SystemClock().now(), "operation_id": random_operation_id()}


async def assert_graph_is_right(db: Database) -> None:
    """Asserts that both members of each pair agree, and that no change waits for a job."""
    assert [problem for one in graph.INVARIANTS async for problem in one.problems(db)] == []
    assert await db["social.relations"].find_one({"uncopied": {"$exists": True}}) is None


async def join(
    db: Database, *subjects: str, follows: Mapping[str, Sequence[str]] | None = None, **profile: Any
) -> list[Document]:
    """Makes members with these subjects, some of whom follow others. Names are the subjects with a capital."""
    made = [
        dict(await member_edits.join(db, subject=subject, name=subject.capitalize(), profile=profile, **operation()))
        for subject in subjects
    ]
    for member, others in (follows or {}).items():
        await circle(db, member, *others)
    return made


async def circle(db: Database, member: str, *others: str, name: str = FRIENDS, now: datetime | None = None) -> None:
    for other in others:
        await relation_edits.add_to_circle(db, member=member, other=other, circle=name, rate=None, **operation(now))


async def uncircle(db: Database, member: str, *others: str, name: str = FRIENDS, now: datetime | None = None) -> None:
    for other in others:
        await relation_edits.remove_from_circle(
            db, member=member, other=other, circle=name, rate=None, **operation(now)
        )


async def block(db: Database, member: str, *others: str) -> None:
    for other in others:
        await relation_edits.block(db, member=member, other=other, rate=None, **operation())


async def block_each_other(db: Database, first: str, second: str) -> None:
    """Lets the first member block the second, who then blocks the first: it takes effect, but answers NotFound."""
    await block(db, first, second)
    with contextlib.suppress(NotFound):
        await block(db, second, first)


async def unblock(db: Database, member: str, *others: str) -> None:
    for other in others:
        await relation_edits.unblock(db, member=member, other=other, rate=None, **operation())
