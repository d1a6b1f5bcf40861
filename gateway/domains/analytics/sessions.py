"""What the domain declares about sessions."""

from __future__ import annotations

from portico.resolvers.analytics import session_checks, session_reads, session_roll_ups
from portico.resolvers.analytics.sessions import ROLL_UPS, SESSIONS
from portico.resolvers.declarations import Command, Gauge, Job
from portico.resolvers.errors import DomainError
from portico.resolvers.problems import Invariant
from portico.resolvers.writes.sweeps import DAMAGED, SweepFailed
from portico.schema.analytics.sessions import SessionMutation, SessionQuery


async def _roll_up(run: Job.Run) -> int:
    return await session_roll_ups.roll_up(run.db, session_roll_ups.Done())


async def _roll_up_now(run: Command.Run) -> bool:
    """Rolls up until nothing is pending. Returns False if sessions are left that cannot be rolled up."""
    total = int(await session_reads.count_pending(run.db, run.now))
    done, before, failure = session_roll_ups.Done(), -1, None
    while done.sessions > before:
        before, failure = done.sessions, None
        try:
            await session_roll_ups.roll_up(run.db, done, lambda: run.progress(done.sessions, total))
        except (*DAMAGED, DomainError, SweepFailed) as error:
            failure = error
    run.print(f"Sessions rolled up: {done.sessions:,}. Periods stored: {done.periods:,}.")
    if failure is not None:
        left = int(await session_reads.count_pending(run.db, run.now))
        first = failure.exceptions[0] if isinstance(failure, SweepFailed) else failure
        run.print(f"Sessions left: {left:,}, e.g. because: {first}. `portico doctor` shows what is damaged.")
    return failure is None


COLLECTIONS = (SESSIONS, ROLL_UPS)
JOBS = (Job(session_roll_ups.JOB, _roll_up),)
INVARIANTS = (
    Invariant(
        "Every session has a valid length, and is counted in the hour in which it began.",
        session_checks.find_wrong_sessions,
    ),
    Invariant(
        "Every roll-up of sessions equals what it is computed from, from hours to years.",
        session_checks.find_wrong_roll_ups,
    ),
)
GAUGES = (
    Gauge(
        "portico_roll_up_pending_sessions",
        "How many sessions some roll-ups may lack.",
        session_reads.count_pending,
    ),
    Gauge(
        "portico_roll_up_lag_seconds",
        "The age of the oldest session that some roll-ups may lack; 0 if there is none.",
        session_reads.oldest_pending,
    ),
)
COMMANDS = (
    Command(
        "rollup",
        "Roll up all sessions that are pending now, as the job roll-up-sessions does. The gateway may run.",
        _roll_up_now,
    ),
)
QUERIES = (SessionQuery,)
MUTATIONS = (SessionMutation,)
