"""Imports of log files. They can be repeated: each event has an id that is derived from its line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from portico.resolvers.declarations import Resources
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.import_outcomes import Outcome

from .log_recording import limit_of, record, require_kept
from .settings import AnalyticsSettings


async def import_events(
    db: Database, events: Sequence[Document], *, now: datetime, resources: Resources
) -> list[Outcome]:
    """Records events as `checked_event` returns them. Returns the outcome of each: created, unchanged, or too old.

    Writes:   one insert, which a majority of the servers has on disk.
    """
    limit = limit_of(now, resources.of(AnalyticsSettings).log_days)
    refused: dict[int, InvalidInput] = {}
    for number, event in enumerate(events):
        try:
            require_kept(event["time"], limit)
        except InvalidInput as error:
            refused[number] = error
    kept = [event for number, event in enumerate(events) if number not in refused]
    created = await record(db, kept, durability="MAJORITY")
    return [
        refused.get(number) or ("created" if event["_id"] in created else "unchanged")
        for number, event in enumerate(events)
    ]
