"""Sessions of users, and their statistics by period."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import strawberry

from portico.resolvers.analytics import session_roll_ups
from portico.resolvers.analytics.batches import checked
from portico.resolvers.analytics.session_reads import read_stats
from portico.resolvers.analytics.session_recording import record_sessions, session_of
from portico.resolvers.analytics.sessions import MICROSECONDS
from portico.resolvers.documents import Document
from portico.schema.context import Info
from portico.schema.fields import costs
from portico.schema.inputs import described
from portico.schema.mutations import mutation
from portico.schema.roles import Role
from portico.schema.scalars import BigInt

from .analysts import ANALYST
from .periods import Granularity, RangeBegin, RangeEnd
from .recording import RecordResult, event_id, recorded_payload

# Periods of one read: a year of days has as many at most. Only analysts can read up to 10,000.
_USUAL_PERIODS = 366


@strawberry.type(description="How long the sessions of a user were in a period. The period is in UTC.")
class SessionStats:
    user_id: str = strawberry.field(description="The user.")
    start: datetime = strawberry.field(description="When the period begins. A week begins on Monday.")
    sessions: BigInt = strawberry.field(description="How many sessions began in the period.")
    total: float = strawberry.field(description="Their length in seconds, together.")
    mean: float = strawberry.field(description="Their mean length in seconds.")


@strawberry.type(description="The statistics of a user's sessions, and until when they are complete.")
class SessionReport:
    as_of: datetime = strawberry.field(
        description="Every session of the user that was acknowledged before this instant is included."
    )
    stats: list[SessionStats] = strawberry.field(
        metadata=costs(length=_USUAL_PERIODS),
        description="The periods in which sessions began, in their order. Periods without a session are left out.",
    )


@strawberry.input(description="A session.")
class SessionInput:
    event_id: strawberry.ID | None = event_id("A session")
    user_id: str = strawberry.field(description="The user: any text of 1 to 255 characters.")
    at: datetime = strawberry.field(description="When the session began, in the years 1970 to 2199.")
    length: float = strawberry.field(
        description="Seconds, up to 31 days (2,678,400). Rounded to the microsecond, so sums are exact."
    )


@strawberry.type
class SessionQuery:
    @strawberry.field(
        description="How long the sessions of a user were, by period. Unknown users have no periods. For an ANALYST."
    )
    async def session_stats(
        self,
        info: Info,
        user_id: Annotated[str, described("The user.")],
        granularity: Annotated[Granularity, described("The length of the periods: HOUR, DAY, WEEK, MONTH or YEAR.")],
        begin: RangeBegin,
        end: RangeEnd,
    ) -> SessionReport | None:
        context = info.context
        context.require_caller(ANALYST)
        level: Any = granularity.name
        # What was true of an earlier time stays true: a live query need not run again because the time passes.
        now = context.started
        report = await read_stats(context.db, user_id=user_id, granularity=level, begin=begin, end=end, now=now)
        return SessionReport(as_of=report.as_of, stats=[_stats(user_id, one) for one in report.stats])


@strawberry.type
class SessionMutation:
    @mutation(
        role=Role.SERVICE,
        description="Records sessions, also late ones, up to 1,000 in a call. Invalid ones are listed, and the others "
        "are recorded. Statistics include them soon after; see `asOf`. For a SERVICE.",
    )
    async def record_sessions(self, info: Info, input: list[SessionInput]) -> RecordResult | None:
        context = info.context
        batch = checked(input, _session_of)
        recorded = await record_sessions(context.db, batch.entries, now=context.now)
        context.resources.wake(session_roll_ups.JOB)
        return recorded_payload(recorded, batch.invalid)


def _session_of(given: SessionInput) -> Document:
    return session_of(event_id=given.event_id, user_id=given.user_id, at=given.at, length=given.length)


def _stats(user_id: str, roll_up: Mapping[str, Any]) -> SessionStats:
    sessions, total = roll_up["sessions"], roll_up["total"] / MICROSECONDS
    return SessionStats(
        user_id=user_id, start=roll_up["start"], sessions=BigInt(sessions), total=total, mean=total / sessions
    )
