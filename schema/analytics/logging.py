"""Recording log events."""

from datetime import datetime
from enum import Enum
from typing import Annotated

import strawberry

from portico.resolvers.analytics import log_recording
from portico.resolvers.analytics.batches import checked
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.schema.context import Info
from portico.schema.inputs import described
from portico.schema.mutations import mutation
from portico.schema.roles import Role
from portico.schema.scalars import BigInt

from .recording import RecordResult, event_id, recorded_payload


@strawberry.enum(description="What a call waits for before it answers.")
class Durability(Enum):
    NONE = strawberry.enum_value("NONE", description="Nothing: fastest, and entries may be lost.")
    ACKNOWLEDGED = strawberry.enum_value(
        "ACKNOWLEDGED", description="The primary server has the entries in its memory. A failure of it may lose them."
    )
    MAJORITY = strawberry.enum_value("MAJORITY", description="A majority of the servers have them on their disks.")


@strawberry.input(description="A request, as a web server logged it.")
class LogEventInput:
    event_id: strawberry.ID | None = event_id("An event")
    host: str = strawberry.field(description="Where the request came from: an address or a name, up to 255 characters.")
    user: str | None = strawberry.field(default=None, description="The user, up to 255 characters.")
    time: datetime = strawberry.field(description="When the request came, in the years 1970 to 2199.")
    method: str = strawberry.field(default="GET", description="The method, up to 32 characters.")
    path: str = strawberry.field(description="The path, up to 8,192 characters.")
    status: int = strawberry.field(default=200, description="The status of the response, 100 to 999.")
    response_size: BigInt = strawberry.field(default=BigInt(0), description="Bytes.")
    referrer: str | None = strawberry.field(
        default=None, description="The address of the page that led to the request, up to 8,192 characters."
    )
    user_agent: str | None = strawberry.field(
        default=None, description="The name of the client's program, up to 8,192 characters."
    )

    def event(self) -> log_recording.LogEvent:
        return log_recording.LogEvent(**vars(self))


@strawberry.type
class LogMutation:
    @mutation(
        role=Role.SERVICE,
        description="Records requests, up to 1,000 in a call. Invalid ones are listed, and the others are recorded. "
        "For a SERVICE.",
    )
    async def log_events(
        self,
        info: Info,
        input: list[LogEventInput],
        durability: Annotated[Durability, described("What the call waits for.")] = Durability.ACKNOWLEDGED,
    ) -> RecordResult | None:
        context = info.context
        limit = log_recording.limit_of(context.now, context.resources.of(AnalyticsSettings).log_days)
        batch = checked(input, lambda one: log_recording.checked_event(one.event(), not_before=limit))
        new = await log_recording.record(context.db, batch.entries, durability=durability.name)
        events = [event for event in batch.entries if event["_id"] in new]
        return recorded_payload(len(batch.entries), batch.invalid, events)
