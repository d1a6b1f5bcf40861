"""Log events, and requests by page and day."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import strawberry

from portico.resolvers.analytics import log_events, page_counts
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.schema.connections import Connection, Paged
from portico.schema.context import Context, Info
from portico.schema.fields import Source, as_type, costs, stored
from portico.schema.inputs import After, Before, First, Last, Span, described
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.scalars import BigInt

from .analysts import ANALYST

DEFAULT_EVENTS = 50
DEFAULT_PAGES = 100


def _is_analyst(context: Context) -> bool:
    return context.has_role(ANALYST)


LOG_EVENT = Kind.of(
    "LogEvent",
    log_events.LOG_EVENTS,
    callers=_is_analyst,
)
PAGES = Paged.of(LOG_EVENT, log_events.LOG_EVENTS)


@strawberry.type(description="One request, as a web server logged it.")
class LogEvent(Node):
    id: strawberry.ID = node_id("LogEvent", "_id")
    host: str = stored(description="Where the request came from: an address or a name.")
    user: str | None = stored(description="The user; null if the server knew none.")
    time: datetime = stored(description="When the request came.")
    method: str = stored(description="The method, for example `GET`; `-` if it is not known.")
    path: str = stored(description="The path, as the client sent it.")
    status: int = stored(description="The status of the response.")
    response_size: BigInt = stored(description="Bytes.")
    referrer: str | None = stored(description="The address of the page that led to the request.")
    user_agent: str | None = stored(description="The name of the client's program.")


@strawberry.type(description="The requests of a page on one day.")
class PageCount:
    path: str = stored(description="The path of the page.")
    day: datetime = stored(description="Midnight UTC of the day.")
    hits: BigInt = stored(description="The number of requests.")
    visitors: BigInt = stored(description="Distinct users, or hosts where no user is known; exact.")


@strawberry.input(description="Conditions that must all hold.")
class LogFilter:
    path: str | None = strawberry.field(default=None, description="This path exactly.")
    host: str | None = strawberry.field(default=None, description="This host exactly.")
    from_: datetime | None = strawberry.field(default=None, name="from", description="Not before this time.")
    to: datetime | None = strawberry.field(default=None, description="Before this time.")


@strawberry.type
class LogQuery:
    @strawberry.field(description="Log events, latest first. For an ANALYST.")
    async def log_events(
        self,
        info: Info,
        filter: Annotated[LogFilter, described("The conditions; `{}` for all events.")],
        first: First = DEFAULT_EVENTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[LogEvent] | None:
        info.context.require_caller(ANALYST)
        span = Span(first, after, last, before)
        conditions: dict[str, Any] = {"path": filter.path, "host": filter.host, "begin": filter.from_, "end": filter.to}
        listing = span.beside(DEFAULT_EVENTS, log_events.listing, **conditions)
        return Connection(page=await PAGES.spanned(info, listing, span, default=DEFAULT_EVENTS))

    @strawberry.field(
        metadata=costs(length=page_counts.MAX_PAGES, extra=500, costly=True),
        description="Requests by page and day, most first. Days that are over are counted in advance. The rest of the "
        "range can have a limited number of log events, by default 1,000,000. For an ANALYST.",
    )
    async def page_counts(
        self,
        info: Info,
        from_: Annotated[datetime, strawberry.argument(name="from", description="Not before this time.")],
        to: Annotated[datetime, described("Before this time.")],
        limit: Annotated[int, described("The most pages and days, 1 to 1,000.")] = DEFAULT_PAGES,
    ) -> list[PageCount] | None:
        context = info.context
        context.require_caller(ANALYST)
        most = context.resources.of(AnalyticsSettings).max_page_count_events
        found: Sequence[Source] = await page_counts.count_pages(context.db, from_, to, limit=limit, max_events=most)
        return as_type(list[PageCount], found)
