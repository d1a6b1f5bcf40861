"""Checks of zones and campaigns."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem, problems_with
from portico.resolvers.snapshots import read_at_one_time
from portico.resolvers.writes.sweeps import require

from .ads import advertiser_of, require_ad_in
from .campaigns import ACTIVE, CAMPAIGNS, DEACTIVATED, ENDING
from .deactivating import finish_now, remove_ads
from .zones import MAX_ADS, RENEW, SORT, ZONES, live_ads, zone_key

_BATCH = 100
_ZONE, _CAMPAIGN = Problem.named("zone"), Problem.named("campaign")


async def find_wrong_zones(db: Database) -> AsyncIterator[Problem]:
    """Yields zones that are not as `zones` describes them."""

    async def find(zones: list[Document]) -> AsyncIterator[Problem]:
        for zone in zones:
            for problem in problems_with(zone, partial(_wrong_with, db), _ZONE):
                yield problem

    async for problem in Problem.all_in(db[ZONES.name].find({}), find, _ZONE, _BATCH):
        yield problem


def _wrong_with(db: Database, zone: Document) -> Iterator[Problem]:
    if zone["_id"] != zone_key(zone["site_id"], zone["zone_id"]):
        yield Problem(_ZONE(zone), "its `_id` is not that of its site and zone")
    require(zone, ("nonce",))
    ads = zone["ads"]
    if len(ads) > MAX_ADS:
        yield Problem(_ZONE(zone), f"it has {len(ads):,} ads")
    for ad in ads:
        require_ad_in(ad)
    if ads != sorted(ads, key=lambda ad: (-ad["ecpm"], ad["campaign_id"], ad["ad_unit_id"])):
        sort = partial(_sort_ads, db, zone["_id"])
        yield Problem(_ZONE(zone), "its ads are not in the order of their prices", sort)
    names = Counter((ad["campaign_id"], ad["ad_unit_id"]) for ad in live_ads(zone))
    for (campaign, unit), count in names.items():
        if count > 1:
            yield Problem(_ZONE(zone), f"it has the ad {unit} of {campaign} {count} times")


async def _sort_ads(db: Database, zone: str) -> None:
    """Puts the ads of a zone in the order of their prices."""
    await db[ZONES.name].update_one({"_id": zone}, [SORT, RENEW])


async def find_wrong_campaigns(db: Database) -> AsyncIterator[Problem]:
    """Yields campaigns that are not as `campaigns` describes them, and zones with ads of campaigns that have ended."""

    async def find(campaigns: list[Document]) -> AsyncIterator[Problem]:
        for campaign in campaigns:
            for problem in problems_with(campaign, partial(_wrong_with_campaign, db), _CAMPAIGN):
                yield problem

    async for problem in Problem.all_in(db[CAMPAIGNS.name].find({}), find, _CAMPAIGN, _BATCH):
        yield problem
    async for problem in _ads_without_campaign(db):
        yield problem


def _wrong_with_campaign(db: Database, campaign: Document) -> Iterator[Problem]:
    if campaign["advertiser"] != advertiser_of(campaign["_id"]):
        yield Problem(_CAMPAIGN(campaign), "its advertiser is not the one in its id")
    if campaign["state"] not in {ACTIVE, ENDING, DEACTIVATED}:
        yield Problem(_CAMPAIGN(campaign), f"its state is {campaign['state']!r}")
    if campaign["state"] == DEACTIVATED and campaign["zones"] < 0:
        yield Problem(_CAMPAIGN(campaign), f"it was taken out of {campaign['zones']} zones")
    if campaign["state"] == ENDING and "ending_since" not in campaign:
        finish = partial(finish_now, db, campaign["_id"])
        yield Problem(_CAMPAIGN(campaign), "no job finds that it is being deactivated", finish)


async def _ads_without_campaign(db: Database) -> AsyncIterator[Problem]:
    """Yields {_id: a zone, problem} for live ads whose campaign is missing; with `campaign` if it is deactivated."""

    async def find(zones: list[Document]) -> AsyncIterator[Problem]:
        names = {ad["campaign_id"] for zone in zones for ad in live_ads(zone)}
        served = {"_id": {"$in": sorted(names)}, "state": {"$in": [ACTIVE, ENDING]}}
        found = {campaign["_id"] async for campaign in db[CAMPAIGNS.name].find(served, {"_id": 1})}
        for zone in zones:
            for name in sorted({ad["campaign_id"] for ad in live_ads(zone)} - found):
                states = await _states_of(db, zone["_id"], name)
                if states == []:
                    yield Problem(_ZONE(zone), f"the campaign {name} of its ads is missing")
                if states == [DEACTIVATED]:
                    text = f"the campaign {name} of its ads is deactivated"
                    yield Problem(_ZONE(zone), text, partial(remove_ads, db, name))

    fields = dict.fromkeys(("ads.campaign_id", "ads.pending", "ads.ended"), 1)
    async for problem in Problem.all_in(db[ZONES.name].find({}, fields), find, _ZONE, _BATCH):
        yield problem


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
