"""Checks of zones and campaigns."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator

from portico.resolvers.documents import Database, Document
from portico.resolvers.snapshots import read_at_one_time
from portico.resolvers.writes.sweeps import require, wrong_in_batches, wrong_with

from .ads import advertiser_of, require_ad_in
from .campaigns import ACTIVE, CAMPAIGNS, DEACTIVATED, ENDING
from .zones import MAX_ADS, RENEW, SORT, ZONES, live_ads, zone_key

_BATCH = 100


async def find_wrong_zones(db: Database) -> AsyncIterator[Document]:
    """Yields {_id, problem} of zones that are not as `zones` describes them; with `repair` if sorting mends it."""
    async for zone in wrong_in_batches(db[ZONES.name].find({}), _wrong_of_each, _BATCH):
        yield zone


async def _wrong_of_each(zones: list[Document]) -> AsyncIterator[Document]:
    for zone in zones:
        for wrong in wrong_with(zone, _wrong_with):
            yield wrong


def _wrong_with(zone: Document) -> Iterator[Document]:
    if zone["_id"] != zone_key(zone["site_id"], zone["zone_id"]):
        yield {"_id": zone["_id"], "problem": "its `_id` is not that of its site and zone"}
    require(zone, ("nonce",))
    ads = zone["ads"]
    if len(ads) > MAX_ADS:
        yield {"_id": zone["_id"], "problem": f"it has {len(ads):,} ads"}
    for ad in ads:
        require_ad_in(ad)
    if ads != sorted(ads, key=lambda ad: (-ad["ecpm"], ad["campaign_id"], ad["ad_unit_id"])):
        yield {"_id": zone["_id"], "problem": "its ads are not in the order of their prices", "repair": "sort"}
    names = Counter((ad["campaign_id"], ad["ad_unit_id"]) for ad in live_ads(zone))
    for (campaign, unit), count in names.items():
        if count > 1:
            yield {"_id": zone["_id"], "problem": f"it has the ad {unit} of {campaign} {count} times"}


async def sort_ads(db: Database, zone: str) -> None:
    """Puts the ads of a zone in the order of their prices."""
    await db[ZONES.name].update_one({"_id": zone}, [SORT, RENEW])


async def find_wrong_campaigns(db: Database) -> AsyncIterator[Document]:
    """Yields {_id, problem} of campaigns that are not as `campaigns` describes them."""
    async for campaign in wrong_in_batches(db[CAMPAIGNS.name].find({}), _wrong_campaigns, _BATCH):
        yield campaign


async def _wrong_campaigns(campaigns: list[Document]) -> AsyncIterator[Document]:
    for campaign in campaigns:
        for wrong in wrong_with(campaign, _wrong_with_campaign):
            yield wrong


def _wrong_with_campaign(campaign: Document) -> Iterator[Document]:
    if campaign["advertiser"] != advertiser_of(campaign["_id"]):
        yield {"_id": campaign["_id"], "problem": "its advertiser is not the one in its id"}
    if campaign["state"] not in {ACTIVE, ENDING, DEACTIVATED}:
        yield {"_id": campaign["_id"], "problem": f"its state is {campaign['state']!r}"}
    if campaign["state"] == DEACTIVATED and campaign["zones"] < 0:
        yield {"_id": campaign["_id"], "problem": f"it was taken out of {campaign['zones']} zones"}
    if campaign["state"] == ENDING and "ending_since" not in campaign:
        yield {"_id": campaign["_id"], "problem": "no job finds that it is being deactivated", "repair": "finish"}


async def find_ads_without_campaign(db: Database) -> AsyncIterator[Document]:
    """Yields {_id: a zone, problem} for live ads whose campaign is missing; with `campaign` if it is deactivated."""

    async def find(zones: list[Document]) -> AsyncIterator[Document]:
        names = {ad["campaign_id"] for zone in zones for ad in live_ads(zone)}
        served = {"_id": {"$in": sorted(names)}, "state": {"$in": [ACTIVE, ENDING]}}
        found = {campaign["_id"] async for campaign in db[CAMPAIGNS.name].find(served, {"_id": 1})}
        for zone in zones:
            for name in sorted({ad["campaign_id"] for ad in live_ads(zone)} - found):
                states = await _states_of(db, zone["_id"], name)
                if states == []:
                    yield {"_id": zone["_id"], "problem": f"the campaign {name} of its ads is missing"}
                if states == [DEACTIVATED]:
                    problem = f"the campaign {name} of its ads is deactivated"
                    yield {"_id": zone["_id"], "problem": problem, "campaign": name}

    fields = dict.fromkeys(("ads.campaign_id", "ads.pending", "ads.ended"), 1)
    async for wrong in wrong_in_batches(db[ZONES.name].find({}, fields), find, _BATCH):
        yield wrong


async def _states_of(db: Database, zone: str, campaign: str) -> list[str] | None:
    """Returns the state of the campaign of a live ad, [] if it is missing; None if the ad is not live any more.

    Both are read as of one point in time, because the campaign may have been deactivated after its ad was read.
    """
    lookup = {
        "from": CAMPAIGNS.name,
        "pipeline": [{"$match": {"_id": campaign}}, {"$project": {"state": 1}}],
        "as": "campaigns",
    }
    stages: list[Document] = [{"$match": {"_id": zone}}, {"$lookup": lookup}]
    for found in await read_at_one_time(db, ZONES, stages, batch_size=1):
        if campaign in {ad["campaign_id"] for ad in live_ads(found)}:
            return [one["state"] for one in found["campaigns"]]
    return None
