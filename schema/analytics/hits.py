"""Hits of pages: recording them, and their numbers over time."""

from datetime import datetime
from typing import Annotated, Any

import strawberry

from portico.resolvers.analytics import hit_reads
from portico.resolvers.analytics.batches import checked
from portico.resolvers.analytics.hit_counters import Series
from portico.resolvers.analytics.hit_writing import Hit, HitWriter, checked_hit
from portico.schema.context import Info
from portico.schema.fields import as_type, stored
from portico.schema.inputs import described
from portico.schema.mutations import mutation
from portico.schema.roles import Role
from portico.schema.scalars import BigInt

from .analysts import ANALYST
from .periods import Granularity, RangeBegin, RangeEnd
from .recording import RecordResult, event_id, recorded_payload

# Points of a usual read: a year of days. There can be 10,000.
_USUAL_POINTS = 366


@strawberry.type(description="The hits of one period.")
class HitPoint:
    at: datetime = stored(description="When the period begins.")
    hits: BigInt = stored(description="The number of hits in the period.")


@strawberry.type(description="Hits of a page over time, from counters kept as the hits come in.")
class HitSeries:
    site: str = stored(description="The site.")
    page: str = stored(description="The page.")
    points: list[HitPoint] = stored(length=_USUAL_POINTS, description="Every point of the range, zeros included.")


@strawberry.input(description="A view of a page.")
class HitInput:
    event_id: strawberry.ID | None = event_id("A hit")
    site: str = strawberry.field(description="The site, up to 200 characters.")
    page: str = strawberry.field(description="The page of the site, up to 8,192 characters.")
    at: datetime | None = strawberry.field(
        default=None, description="When it was viewed, in the years 1970 to 2199; by default now."
    )


@strawberry.type
class HitQuery:
    @strawberry.field(
        description="The hits of a page in the periods of a range. The first one contains `from`. "
        "A page that nobody has viewed has zeros. For an ANALYST."
    )
    async def hits(
        self,
        info: Info,
        site: Annotated[str, described("The site.")],
        page: Annotated[str, described("The page of the site.")],
        granularity: Annotated[Granularity, described("The length of the periods: MINUTE, HOUR, DAY or MONTH.")],
        begin: RangeBegin,
        end: RangeEnd,
    ) -> HitSeries | None:
        context = info.context
        context.require_caller(ANALYST)
        level: Any = granularity.name
        series = Series(site, page)
        points = await hit_reads.read_hits(context.reading, series, granularity=level, begin=begin, end=end)
        shown = {"site": site, "page": page, "points": points}
        return as_type(HitSeries, shown)


@strawberry.type
class HitMutation:
    @mutation(
        role=Role.SERVICE,
        description="Counts hits of pages, up to 1,000 in a call. Invalid ones are listed, and the others are counted. "
        "For a SERVICE.",
    )
    async def record_hits(self, info: Info, input: list[HitInput]) -> RecordResult | None:
        context = info.context

        def check(given: HitInput) -> Hit:
            at = context.now if given.at is None else given.at
            return checked_hit(event_id=given.event_id, site=given.site, page=given.page, at=at)

        batch = checked(input, check)
        await context.resources.of(HitWriter).record(context.db, batch.entries, now=context.now)
        return recorded_payload(len(batch.entries), batch.invalid)
