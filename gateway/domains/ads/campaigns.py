"""The formats of imported campaigns and ads: those of Portico, and those of a grocer's campaigns and coupons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from portico.gateway.imports.fields import Record, as_key, as_list, as_text, as_texts, object_of, optional, text_at
from portico.gateway.imports.runs import Importer
from portico.gateway.pictures.picture_files import PictureFile
from portico.resolvers.ads.ads import MAX_KEYWORD, Ad, fitting, require_ad, require_campaign_id, require_id
from portico.resolvers.ads.creatives import Creative, require_creative
from portico.resolvers.ads.images import ImageRules
from portico.resolvers.ads.placement_imports import (
    CampaignRecord,
    CreativeRecord,
    Placement,
    PlacementsRecord,
    import_campaign,
    import_placement,
)
from portico.resolvers.declarations import Resources
from portico.resolvers.documents import Database
from portico.resolvers.errors import InvalidInput
from portico.resolvers.import_outcomes import Outcome
from portico.schema.errors import camel_case

ADVERTISER, SITE = "grocer", "grocery"
# The zone of coupons for products that are not in the list of products.
OTHERS = "coupons"
# Cents for a thousand impressions: the lists of coupons have no prices.
COUPON_ECPM = 100
_PLACEMENT = {"siteId", "zoneId", "adUnitId", "ecpm", "keywords", "dailyCap", "totalCap", "creative"}
_CREATIVE = {"text", "link", "image", "size"}
_SIZE = {"width", "height"}
# By product: its department, and its words.
Products = Mapping[str, tuple[str, Sequence[str]]]

ADVERTISER_OPTION = Importer.Option(
    "advertiser", str | None, f"For a grocer's records: the advertiser. Default: {ADVERTISER}.", "NAME"
)
SITE_OPTION = Importer.Option("site", str | None, f"For a grocer's records: the site. Default: {SITE}.", "NAME")


def campaigns(advertiser: str = ADVERTISER) -> Importer:
    """Returns the importer of campaigns."""

    def read(given: Any, file: Path) -> CampaignRecord:
        return campaign_record(given, file, advertiser)

    return Importer(
        read,
        lambda record: record.campaign_id,
        _with_rules(import_campaign),
        is_parallel=True,
        is_single=True,
        has_files=True,
        options=(ADVERTISER_OPTION,),
        configure=campaigns,
    )


def ads(
    advertiser: str = ADVERTISER, site: str = SITE, products: str | None = None, ecpm: int = COUPON_ECPM
) -> Importer:
    """Returns the importer of ads in zones. Raises ValueError for a file of products that cannot be read."""
    known = {} if products is None else read_products(Path(products))

    def read(given: Any, file: Path) -> PlacementsRecord:
        record = object_of(given, None)
        if "coupon_upc" in record:
            return _coupon(record, known, advertiser, site, ecpm)
        object_of(record, {"campaignId", *_PLACEMENT})
        return PlacementsRecord([_placement(record, campaign_id_at(record), file)])

    return Importer(
        read,
        lambda record: record.key,
        _with_rules(import_placement),
        is_parallel=True,
        is_single=True,
        has_files=True,
        options=(ADVERTISER_OPTION, SITE_OPTION, *_OPTIONS),
        configure=ads,
    )


_OPTIONS = (
    Importer.Option(
        "products", str | None, "For a grocer's coupons: the products that they are for, as JSON Lines.", "FILE"
    ),
    Importer.Option(
        "ecpm",
        int | None,
        f"For a grocer's coupons: cents for a thousand impressions. Default: {COUPON_ECPM}.",
        "CENTS",
    ),
)


def _with_rules(put: Callable[..., Awaitable[Outcome]]) -> Callable[..., Awaitable[Outcome]]:
    """Returns the function with what it needs of the resources."""

    async def stored(db: Database, record: Any, *, now: datetime, resources: Resources) -> Outcome:
        return await put(db, record, now=now, rules=resources.of(ImageRules))

    return stored


def campaign_record(given: Any, file: Path, advertiser: str = ADVERTISER) -> CampaignRecord:
    """Parses a campaign of a file. Raises InvalidInput.

    * {"campaignId", "isActive"?, "ads"?}, with the fields of an ad without `campaignId` in each of `ads`.
    * {"campaign_id", "coupons", …}: a grocer's campaign. Other fields are ignored.
    """
    record = object_of(given, None)
    if "campaign_id" in record:
        as_list(record.get("coupons"), "coupons")
        return CampaignRecord(grocers_campaign(advertiser, record["campaign_id"]), is_active=True, placements=())
    object_of(record, {"campaignId", "isActive", "ads"})
    campaign_id = campaign_id_at(record)
    is_active = record.get("isActive", True)
    if not isinstance(is_active, bool):
        raise InvalidInput("must be true or false", "isActive")
    placements = [
        _placement(object_of(one, _PLACEMENT, "ads", str(number)), campaign_id, file, "ads", str(number))
        for number, one in enumerate(optional(record, "ads", as_list) or ())
    ]
    if placements and not is_active:
        raise InvalidInput("must be empty if the campaign is not active", "ads")
    return CampaignRecord(campaign_id, is_active, placements)


def campaign_id_at(record: Record) -> str:
    return require_campaign_id(text_at(record, "campaignId"), "campaignId")


def grocers_campaign(advertiser: str, value: Any) -> str:
    """Returns the campaign id for a grocer's `campaign_id`."""
    return require_campaign_id(f"{advertiser}:{as_id(value, 'campaign_id')}", "campaign_id")


def as_id(value: Any, *path: str) -> str:
    """Returns an id: a string, or a whole number, which stands for its digits."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InvalidInput("must be a string or a whole number", *path)
    return as_key(str(value), *path)


def id_at(record: Record, *path: str) -> str:
    return require_id(text_at(record, *path), *path)


def _placement(record: Record, campaign_id: str, file: Path, *path: str) -> Placement:
    ecpm = _whole(record, "ecpm", *path)
    if ecpm is None:
        raise InvalidInput("is missing", *path, "ecpm")
    daily_cap = _whole(record, "dailyCap", *path)
    ad = Ad(
        campaign_id=campaign_id,
        ad_unit_id=id_at(record, *path, "adUnitId"),
        ecpm=ecpm,
        keywords=optional(record, "keywords", as_texts, *path) or (),
        daily_cap=1 if daily_cap is None else daily_cap,
        total_cap=_whole(record, "totalCap", *path),
    )
    try:
        valid = require_ad(ad)
    except InvalidInput as error:
        raise InvalidInput(error.message, *path, *map(camel_case, error.path)) from None
    given = optional(record, "creative", lambda value, *place: object_of(value, _CREATIVE, *place), *path)
    creative = None if given is None else _creative(given, valid, file, *path, "creative")
    return Placement(id_at(record, *path, "siteId"), id_at(record, *path, "zoneId"), valid, creative)


def _creative(record: Record, ad: Ad, file: Path, *path: str) -> CreativeRecord:
    """Returns what the ad shows. `image` names a file in the folder of the import. Raises InvalidInput."""
    creative = Creative(
        campaign_id=ad.campaign_id,
        ad_unit_id=ad.ad_unit_id,
        text=text_at(record, *path, "text"),
        link=text_at(record, *path, "link"),
        size=optional(record, "size", _size, *path),
    )
    try:
        valid = require_creative(creative)
    except InvalidInput as error:
        raise InvalidInput(error.message, *path, *map(camel_case, error.path)) from None
    name = optional(record, "image", as_text, *path)
    return CreativeRecord(valid, None if name is None else PictureFile(file, name).read)


def _size(given: Any, *path: str) -> tuple[int, int]:
    size = object_of(given, _SIZE, *path)
    width, height = (_whole(size, side, *path) for side in ("width", "height"))
    if width is None or height is None:
        raise InvalidInput("must have a width and a height", *path)
    return width, height


def _whole(record: Record, name: str, *path: str) -> int | None:
    value = record.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise InvalidInput("must be a whole number", *path, name)
    return value


def _coupon(record: Record, products: Products, advertiser: str, site: str, ecpm: int) -> PlacementsRecord:
    """Returns the ads of a coupon: in each campaign, one in the zone of each department that has a product of it."""
    unit = as_id(record["coupon_upc"], "coupon_upc")
    named = as_list(record.get("campaign_ids"), "campaign_ids")
    if not named:
        raise InvalidInput("must not be empty", "campaign_ids")
    numbers = [as_id(one, "products", str(at)) for at, one in enumerate(optional(record, "products", as_list) or ())]
    departments: dict[str, Counter[str]] = {}
    for number in numbers:
        if number in products:
            department, words = products[number]
            departments.setdefault(department, Counter()).update(words)
    placements = []
    for department, counted in sorted(departments.items()) or [(OTHERS, Counter[str]())]:
        # The words of most products come first.
        keywords = list(fitting(word for word, _ in counted.most_common()))
        for campaign in named:
            ad = require_ad(Ad(grocers_campaign(advertiser, campaign), unit, ecpm, keywords))
            placements.append(Placement(require_id(site, "site"), require_id(department, "department"), ad))
    return PlacementsRecord(placements)


def read_products(file: Path) -> Products:
    """Returns the department and the words of each product of a list. Raises ValueError, with one line for the user.

    A line has `product_id`, `department`, `product_category` and `product_type`. Other fields are ignored.
    """
    found: dict[str, tuple[str, Sequence[str]]] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror or error}") from None
    for number, line in enumerate(lines, start=1):
        try:
            record = object_of(orjson.loads(line), None)
            words = [text_at(record, name).strip()[:MAX_KEYWORD] for name in ("product_category", "product_type")]
            department = text_at(record, "department").strip()
            found[as_id(record.get("product_id"), "product_id")] = (department, words)
        except orjson.JSONDecodeError:
            raise ValueError(f"{file}:{number}: not JSON") from None
        except InvalidInput as error:
            raise ValueError(f"{file}:{number}: {'.'.join(error.path)}: {error.message}") from None
    return found
