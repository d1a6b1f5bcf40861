"""What all mutations that record entries answer."""

from collections.abc import Sequence
from typing import Annotated, Any

import strawberry

from portico.resolvers.analytics import log_events
from portico.resolvers.analytics.batches import MAX_ENTRIES
from portico.resolvers.documents import Document
from portico.schema.connections import Edge, edge_of
from portico.schema.context import Info
from portico.schema.errors import InvalidInput, shown_error
from portico.schema.fields import costs, kept_privately

from .analysts import ANALYST
from .log_events import LogEvent


@strawberry.type(description="The result of recording entries.")
class RecordedPayload:
    recorded: int = strawberry.field(
        description="How many entries are recorded now, by this call or by an earlier one with the same `eventId`."
    )
    invalid: list[InvalidInput] = strawberry.field(
        metadata=costs(length=MAX_ENTRIES, each="input"),
        description="The entries that are not valid, and therefore not recorded. "
        "The path begins with the position of the entry in `input`, counted from 0.",
    )
    events: strawberry.Private[list[Document] | None] = kept_privately()

    @strawberry.field(
        metadata=costs(length=MAX_ENTRIES, each="input"),
        description="The new log events as rows of `logEvents` without a filter. Null for hits and sessions, and if "
        "you are no ANALYST.",
    )
    def log_event_edges(self, info: Info) -> list[Edge[LogEvent]] | None:
        if self.events is None or not info.context.has_role(ANALYST):
            return None
        listing = log_events.listing(path=None, host=None, begin=None, end=None)
        return [edge_of(info.context, log_events.LOG_EVENTS.name, listing, event) for event in self.events]


RecordResult = Annotated[
    RecordedPayload | InvalidInput,
    strawberry.union("RecordResult", description="The result of recording entries."),
]


def recorded_payload(
    recorded: int, invalid: Sequence[InvalidInput], events: list[Document] | None = None
) -> RecordedPayload:
    """Returns the payload of a call. `events` are the new log events."""
    return RecordedPayload(recorded=recorded, invalid=[shown_error(error) for error in invalid], events=events)


def event_id(subject: str) -> Any:
    """Returns the input field of the caller's own id. `subject` begins a sentence, e.g. `A hit`."""
    return strawberry.field(
        default=None,
        description=f"The caller's own id, 1 to 255 characters. {subject} with the same id counts once, also if "
        "another caller sends it again. Without an id, repeating the call records it again.",
    )
