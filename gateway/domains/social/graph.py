"""What the social network declares about its graph: jobs and invariants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from portico.resolvers.documents import Database
from portico.resolvers.domains import Invariant, Job, Problem, Turn
from portico.resolvers.social import relation_checks, relation_jobs


async def _finish_relations(turn: Turn) -> int:
    return await relation_jobs.finish_relations(turn.db, now=turn.now)


async def _relations(db: Database) -> AsyncIterator[Problem]:
    async for wrong in relation_checks.find_wrong_relations(db):
        mend = partial(relation_checks.mend_relation, db, wrong) if wrong.get("repair") else None
        name = f"{wrong['of']} to {wrong['to']}" if "of" in wrong else str(wrong["_id"])
        yield Problem(f"relation of {name}", wrong["problem"], mend)


JOBS = (Job("finish-relations", _finish_relations),)
INVARIANTS = (
    Invariant(
        "What a member has decided about another, circles and blocks, is the same in the documents of both.", _relations
    ),
)
