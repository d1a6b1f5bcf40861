"""Checks the caps of ads in counters and zones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem
from portico.resolvers.snapshots import read_at_one_time

from .capping import placements, settle, smallest_cap
from .counters import COUNTERS, CountedAd
from .zones import ZONES, is_live

_BATCH = 100
_ZONE = Problem.named("zone")


async def find_wrong_caps(db: Database) -> AsyncIterator[Problem]:
    """Yields the zones of ads whose cap is not the smallest total cap of their placements in every zone."""
    seen: set[str] = set()

    async def find(zones: list[Document]) -> AsyncIterator[Problem]:
        for zone in zones:
            capped = [ad for ad in zone["ads"] if ad["total_cap"] is not None or ad.get("cap") is not None]
            for ad in map(CountedAd.of, capped):
                if ad.key not in seen:
                    seen.add(ad.key)
                    text = await _wrong_with(db, ad)
                    if text is not None:
                        yield Problem(_ZONE(zone), text, partial(settle, db, ad, repairs=True))

    names = ("campaign_id", "ad_unit_id", "total_cap", "cap")
    fields = {f"ads.{name}": 1 for name in names}
    async for problem in Problem.all_in(db[ZONES.name].find({}, fields), find, _ZONE, _BATCH):
        yield problem


async def _wrong_with(db: Database, ad: CountedAd) -> str | None:
    """Returns what is wrong with the cap of an ad, as of one point in time: it can change during the check."""
    counter = [{"$match": {"_id": ad.key}}, {"$project": {"cap": 1, "cap_version": 1}}]
    lookup: Document = {"$lookup": {"from": COUNTERS.name, "pipeline": counter, "as": "counters"}}
    found = await read_at_one_time(db, ZONES, [*placements(ad), lookup], batch_size=1_000)
    placed = [one["ads"] for one in found]
    if any("capping" in one for one in placed) or any(one.get("schema_version", 1) < ZONES.version for one in found):
        # A job works it out.
        return None
    wanted, stored = smallest_cap(placed), (found[0]["counters"] or [{}])[0] if found else {}
    if stored.get("cap") != wanted:
        return f"the cap of its ad {ad.ad_unit_id} is {stored.get('cap')}, but its placements have {wanted}"
    current = (stored.get("cap"), stored.get("cap_version", 0))
    if any(is_live(one) and (one.get("cap"), one.get("cap_version", 0)) != current for one in placed):
        return f"the cap of its ad {ad.ad_unit_id} is {wanted}, but a zone has another one"
    return None
