"""Imports of campaigns and of their ads. May be repeated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput
from portico.resolvers.import_outcomes import Outcome
from portico.resolvers.writes.marks import random_operation_id

from .ads import Ad, advertiser_of
from .campaigns import ACTIVE, CAMPAIGNS
from .creatives import Creative, find_creative, set_creative
from .deactivating import deactivate_campaign
from .images import ImageRules, receive
from .placing import place_ad
from .zones import ZONES, live_where, same_ad, zone_key


@dataclass(frozen=True)
class CreativeRecord:
    """What an ad shows, valid, without its image. Each call of `read` yields the bytes of the image."""

    creative: Creative
    read: Callable[[], AsyncIterator[bytes]] | None


@dataclass(frozen=True)
class Placement:
    """An ad and the zone that it is for. The ad is valid, see `ads.require_ad`.

    Without a `creative`, the ad shows what it has shown before.
    """

    site_id: str
    zone_id: str
    ad: Ad
    creative: CreativeRecord | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return (self.site_id, self.zone_id, self.ad.campaign_id, self.ad.ad_unit_id)


@dataclass(frozen=True)
class PlacementsRecord:
    """Placements that an import describes together, at least one."""

    placements: Sequence[Placement]

    @property
    def key(self) -> tuple[str, ...]:
        return self.placements[0].key


@dataclass(frozen=True)
class CampaignRecord:
    """A campaign as an import describes it. A campaign that is not active has no placements."""

    campaign_id: str
    is_active: bool
    placements: Sequence[Placement]


async def import_placement(db: Database, record: PlacementsRecord, *, now: datetime, rules: ImageRules) -> Outcome:
    """Places the ads with their creatives, or changes those that differ. Creates missing campaigns.

    Raises:   InvalidInput, UnacceptableFile, Conflict (another writer was faster; the import tries again).
    Writes:   as `placing.place_ad` and `creatives.set_creative`, for each ad that changes.
    """
    for campaign_id in dict.fromkeys(placement.ad.campaign_id for placement in record.placements):
        await _is_there(db, campaign_id)
    return await _place(db, record.placements, now, rules)


async def import_campaign(db: Database, record: CampaignRecord, *, now: datetime, rules: ImageRules) -> Outcome:
    """Creates the campaign and places its ads, or deactivates it, which is final.

    Raises:   InvalidInput, UnacceptableFile, Conflict (another writer was faster; the import tries again).
    Writes:   ads.campaigns; as `import_placement` and `deactivating.deactivate_campaign`.
    """
    if record.is_active:
        is_there = await _is_there(db, record.campaign_id)
        if not is_there and not record.placements:
            await _create(db, record.campaign_id)
        placed = await _place(db, record.placements, now, rules) if record.placements else "unchanged"
        return "created" if not is_there else "changed" if placed == "created" else placed
    campaign = await db[CAMPAIGNS.name].find_one({"_id": record.campaign_id})
    if campaign is None:
        await _create(db, record.campaign_id)
    elif campaign["state"] != ACTIVE:
        # It may be deactivated only in part, by a process that has crashed.
        await deactivate_campaign(db, campaign_id=record.campaign_id, now=now)
        return "unchanged"
    await deactivate_campaign(db, campaign_id=record.campaign_id, now=now)
    return "created" if campaign is None else "changed"


async def _is_there(db: Database, campaign_id: str) -> bool:
    """Returns whether there is such a campaign. Raises InvalidInput if it is deactivated."""
    campaign = await db[CAMPAIGNS.name].find_one({"_id": campaign_id})
    if campaign is not None and campaign["state"] != ACTIVE:
        raise InvalidInput("The campaign is deactivated, which is final. Use another campaign id.", "campaignId")
    return campaign is not None


async def _create(db: Database, campaign_id: str) -> None:
    new = {"_id": campaign_id, "state": ACTIVE, "advertiser": advertiser_of(campaign_id)}
    try:
        await db[CAMPAIGNS.name].insert_one(new)
    except DuplicateKeyError:
        raise Conflict("The campaign has just been created.") from None


async def _place(db: Database, placements: Sequence[Placement], now: datetime, rules: ImageRules) -> Outcome:
    found = {await _place_one(db, placement, now) for placement in placements}
    creatives = {one.creative.creative.key: one.creative for one in placements if one.creative is not None}
    for creative in creatives.values():
        if await _show(db, creative, now, rules):
            found.add("changed" if found != {"created"} else "created")
    if found == {"created"}:
        return "created"
    return "unchanged" if found == {"unchanged"} else "changed"


async def _place_one(db: Database, placement: Placement, now: datetime) -> Outcome:
    placed = await _placed(db, placement)
    if placed is not None and _is_same(placed, placement.ad):
        return "unchanged"
    try:
        await place_ad(
            db,
            site_id=placement.site_id,
            zone_id=placement.zone_id,
            ad=placement.ad,
            now=now,
            operation_id=random_operation_id(),
        )
    except InvalidInput as error:
        names = {"campaign_id": "campaignId", "zone_id": "zoneId"}
        raise InvalidInput(error.message, *(names.get(part, part) for part in error.path if part != "ad")) from None
    return "created" if placed is None else "changed"


async def _show(db: Database, record: CreativeRecord, now: datetime, rules: ImageRules) -> bool:
    """Sets what the ad shows. Returns False if it shows that already."""
    creative = record.creative
    if record.read is not None:
        creative = creative.with_image(await receive(record.read(), rules))
    found = await find_creative(db, creative.key)
    wanted = {**creative.stored, "image": None if creative.image is None else creative.image.facts}
    if found is not None and {name: found.get(name) for name in wanted} == wanted:
        return False
    await set_creative(db, creative, now=now, operation_id=random_operation_id())
    return True


async def _placed(db: Database, placement: Placement) -> Document | None:
    """Returns the ad as it is placed in the zone; None if it is not."""
    is_wanted = {"$and": [same_ad("$$ad", placement.ad), live_where("$$ad")]}
    own = {"ads": {"$filter": {"input": "$ads", "as": "ad", "cond": is_wanted}}}
    zone = await db[ZONES.name].find_one({"_id": zone_key(placement.site_id, placement.zone_id)}, own)
    found: Sequence[Document] = () if zone is None else [*zone["ads"]]
    return found[0] if found else None


def _is_same(placed: Document, ad: Ad) -> bool:
    wanted = {**ad._asdict(), "keywords": list(ad.keywords)}
    return all(placed[name] == value for name, value in wanted.items())
