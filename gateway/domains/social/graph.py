"""What the social network declares about its graph: jobs and invariants."""

from __future__ import annotations

from portico.resolvers.declarations import Job
from portico.resolvers.problems import Invariant
from portico.resolvers.social import relation_checks, relation_jobs


async def _finish_relations(run: Job.Run) -> int:
    return await relation_jobs.finish_relations(run.db, now=run.now)


JOBS = (Job("finish-relations", _finish_relations),)
INVARIANTS = (
    Invariant(
        "What a member has decided about another, circles and blocks, is the same in the documents of both.",
        relation_checks.find_wrong_relations,
    ),
)
