"""What all mutations that record entries answer."""

from collections.abc import Sequence
from typing import Annotated, Any

import strawberry

from portico.resolvers.analytics.batches import MAX_ENTRIES
from portico.schema.errors import InvalidInput, shown_error
from portico.schema.fields import costs


@strawberry.type(description="The result of recording entries.")
class RecordedPayload:
    recorded: int = strawberry.field(
        description="How many entries are recorded now, by this call or by an earlier one with the same `eventId`."
    )
    invalid: list[InvalidInput] = strawberry.field(
        metadata=costs(length=MAX_ENTRIES),
        description="The entries that are not valid, and therefore not recorded. "
        "The path begins with the position of the entry in `input`, counted from 0.",
    )


RecordResult = Annotated[
    RecordedPayload | InvalidInput,
    strawberry.union("RecordResult", description="The result of recording entries."),
]


def recorded_payload(recorded: int, invalid: Sequence[InvalidInput]) -> RecordedPayload:
    """Returns the payload of a call."""
    return RecordedPayload(recorded=recorded, invalid=[shown_error(error) for error in invalid])


def event_id(subject: str) -> Any:
    """Returns the input field of the caller's own id. `subject` begins a sentence, e.g. `A hit`."""
    return strawberry.field(
        default=None,
        description=f"The caller's own id, 1 to 255 characters. {subject} with the same id counts once, whoever sends "
        "it again. Without an id, repeating the call records it again.",
    )
