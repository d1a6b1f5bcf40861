"""Roll-ups of log events for tests, and a model that counts with nothing but a `Counter`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from portico.resolvers.documents import Database
from portico.schema.scalars import format_instant
from tests.support.harness import GatewayClient

Given = dict[str, Any]
JOB = "roll-up-log-days"
COLLECTIONS = ("analytics.log_events", "analytics.log_days", "analytics.page_days")
DAY = timedelta(days=1)


def counted(events: Iterable[Given], begin: datetime | None = None, end: datetime | None = None) -> list[Given]:
    """Returns the answer of `pageCounts` to these events, or to those in the range."""
    hits: Counter[tuple[str, str]] = Counter()
    visitors: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for one in events:
        if (begin is None or format_instant(begin) <= one["time"]) and (
            end is None or one["time"] < format_instant(end)
        ):
            page = (one["path"], one["time"][:10] + "T00:00:00.000Z")
            hits[page] += 1
            visitors[page].add(("user", one["user"]) if one.get("user") else ("host", one["host"]))
    found = [
        {"path": path, "day": day, "hits": count, "visitors": len(visitors[path, day])}
        for (path, day), count in hits.items()
    ]
    return sorted(found, key=lambda one: (-one["hits"], one["path"], one["day"]))


async def roll_up(gateway: GatewayClient) -> int:
    """Runs the job once, so late that no roll-up is recent. Returns how many days it rolled up, and counts deleted."""
    return await gateway.run_jobs(JOB, minutes=6)


async def rolled_days(db: Database) -> Sequence[datetime]:
    """Returns the days with a complete roll-up, in order."""
    return [one["_id"] async for one in db["analytics.log_days"].find({"valid": {"$exists": True}}, sort=[("_id", 1)])]


async def marks(db: Database) -> int:
    return await db["analytics.log_events"].count_documents({"uncounted": {"$exists": True}})


async def unused_counts(db: Database) -> int:
    """Returns how many stored counts belong to no complete roll-up."""
    valid = [one["valid"] async for one in db["analytics.log_days"].find({"valid": {"$exists": True}})]
    return await db["analytics.page_days"].count_documents({"roll_up": {"$nin": valid}})
