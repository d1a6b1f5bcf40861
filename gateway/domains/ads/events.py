"""The formats of imported events of ads: that of Portico, and that of a grocer's redeemed coupons."""

from __future__ import annotations

from typing import Any

from portico.gateway.imports.fields import Record, as_day, object_of, text_at
from portico.gateway.imports.runs import Importer
from portico.resolvers.ads.event_imports import EventRecord, import_events
from portico.resolvers.ads.profiles import CLICK, IMPRESSION
from portico.resolvers.ads.pseudonyms import MAX_USER_ID
from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import check_length

from .campaigns import (
    ADVERTISER,
    ADVERTISER_OPTION,
    OTHERS,
    SITE,
    SITE_OPTION,
    as_id,
    campaign_id_at,
    grocers_campaign,
    id_at,
)

_FIELDS = {"userId", "kind", "at", "campaignId", "adUnitId", "siteId", "zoneId"}
PREFIX = "household-"


def ad_events(advertiser: str = ADVERTISER, site: str = SITE, prefix: str = PREFIX) -> Importer:
    """Returns the importer of past events. `prefix` comes before the id of a household to make a user id."""

    def read(given: Any) -> EventRecord:
        record = object_of(given, None)
        return _redemption(record, advertiser, site, prefix) if "household_id" in record else event_record(record)

    return Importer(
        read,
        lambda record: record.key,
        import_events,
        is_parallel=True,
        has_resources=True,
        options=(ADVERTISER_OPTION, SITE_OPTION, _PREFIX),
        configure=ad_events,
    )


_PREFIX = Importer.Option(
    "prefix",
    str | None,
    f"For a grocer's records: the text before the id of a household that makes it a user id. Default: {PREFIX}.",
    "TEXT",
)


def event_record(record: Record) -> EventRecord:
    """Parses an event: {"userId", "kind", "at", "campaignId", "adUnitId", "siteId", "zoneId"}. Raises InvalidInput."""
    object_of(record, _FIELDS)
    kind = text_at(record, "kind")
    if kind not in (CLICK, IMPRESSION):
        raise InvalidInput(f"must be {CLICK} or {IMPRESSION}", "kind")
    return EventRecord(
        user_id=_user(text_at(record, "userId"), "userId"),
        kind=kind,
        at=as_day(text_at(record, "at"), "at"),
        campaign_id=campaign_id_at(record),
        ad_unit_id=id_at(record, "adUnitId"),
        site_id=id_at(record, "siteId"),
        zone_id=id_at(record, "zoneId"),
    )


def _redemption(record: Record, advertiser: str, site: str, prefix: str) -> EventRecord:
    """Returns a redeemed coupon as a click of its household, at midnight of its day."""
    return EventRecord(
        user_id=_user(f"{prefix}{as_id(record['household_id'], 'household_id')}", "household_id"),
        kind=CLICK,
        at=as_day(text_at(record, "redemption_date"), "redemption_date"),
        campaign_id=grocers_campaign(advertiser, record.get("campaign_id")),
        ad_unit_id=as_id(record.get("coupon_upc"), "coupon_upc"),
        site_id=site,
        zone_id=OTHERS,
    )


def _user(user_id: str, *path: str) -> str:
    if not user_id:
        raise InvalidInput("must not be empty", *path)
    return check_length(user_id, *path, longest=MAX_USER_ID)
