"""The entries of decided calls in profiles: ending their claims, and forgetting them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes import marks

from . import counters
from .claiming import Counters
from .counters import CountedAd
from .profiles import PROFILES, SERVES_BYTES, SERVES_KEPT, TRIMMED_BYTES


def entry(operation_id: str, token: ObjectId, ads: Sequence[Document], *, at: datetime) -> Document | None:
    """Returns the entry of a decided call; None if it needs none."""
    is_repeatable = marks.is_repeatable(operation_id)
    claimed = [{"key": ad["key"], "cap": ad["cap"]} for ad in ads]
    if is_repeatable:
        shown = ("campaign_id", "ad_unit_id", "ecpm", "keywords")
        named = [{**one, **{name: ad.get(name) for name in shown}} for one, ad in zip(claimed, ads, strict=True)]
        return {"op": operation_id, "token": token, "at": at, "ads": named}
    claimed = [one for one in claimed if one["cap"] is not None]
    return {"token": token, "at": at, "ads": claimed} if claimed else None


async def conclude(db: Database, writer: Counters, decided: Document) -> None:
    """Counts the impressions of a decided call whose claims are still open. Idempotent."""
    ends = [
        writer.end(
            db,
            CountedAd.of(ad),
            cap=ad["cap"],
            token=decided["token"],
            is_shown=True,
            is_urgent=True,
        )
        for ad in decided["ads"]
    ]
    await asyncio.gather(*ends)


async def trim(db: Database, profile_id: str, *, kept: int = SERVES_KEPT, until: datetime | None = None) -> None:
    """Removes the oldest entries that nobody needs any more: the call cannot be repeated, and its claims have ended.

    The latest entries stay, for calls that were suspended while another call finished their operation. These calls
    answer with the stored outcome of the operation, so the ads of their entries go if all entries are large.

    Args:     kept: how many of the latest entries stay.
              until: removes only entries of this time and older ones.
    Writes:   ads.profiles; up to two updates.
    """
    profile = await db[PROFILES.name].find_one({"_id": profile_id}, {"serves": 1, "bytes": SERVES_BYTES})
    if profile is None:
        return
    entries: Sequence[Document] = profile["serves"]
    old = [one for one in entries[: max(len(entries) - kept, 0)] if until is None or one["at"] <= until]
    large = [one for one in entries if one["ads"]] if profile["bytes"] >= TRIMMED_BYTES else []
    over = await _over(db, [*old, *large])
    forgotten = [one["token"] for one in old if one["token"] in over]
    emptied = [one["token"] for one in large if one["token"] in over]
    if forgotten:
        await db[PROFILES.name].update_one({"_id": profile_id}, {"$pull": {"serves": {"token": {"$in": forgotten}}}})
    if emptied:
        await db[PROFILES.name].update_one(
            {"_id": profile_id},
            {"$set": {"serves.$[one].ads": []}},
            array_filters=[{"one.token": {"$in": emptied}}],
        )


async def _over(db: Database, entries: Sequence[Document]) -> set[ObjectId]:
    """Returns the tokens of the entries whose calls cannot be repeated and have no claims."""
    operations = [one["op"] for one in entries if "op" in one]
    concluded = set(await marks.concluded(db, operations)) if operations else set()
    ended = [one for one in entries if "op" not in one or one["op"] in concluded]
    keys = sorted({ad["key"] for one in ended for ad in one["ads"]})
    tokens = {one["token"] for one in ended}
    return tokens - await counters.with_claims(db, keys, [*tokens]) if keys else tokens
