"""Creatives: what an ad shows, and where a click on it leads. The collection, its rules and its write.

An ad is a campaign and an ad unit, and has one creative, in all zones. A creative is one document, which one update
replaces, so no crash leaves a part. Its image is stored before that, see `images`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import NotRequired

from pymongo import ASCENDING, IndexModel, ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, OperationKeyReused
from portico.resolvers.texts import require_text
from portico.resolvers.typed import TypedDict
from portico.resolvers.urls import require_web_url
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.marks import Repeatable, mark_applied, not_applied, trim_marks, was_applied
from portico.resolvers.writes.retries import attempts

from . import images
from .ads import ad_key, require_campaign_id, require_id
from .campaigns import ACTIVE, CAMPAIGNS
from .images import Image, ImageFacts

MAX_TEXT = 500
MAX_PIXELS = 10_000
# Of the key of an ad.
KEY_BYTES = 12
_SIDES = ("width", "height")


class Size(TypedDict):
    """Pixels."""

    width: int
    height: int


class CreativeDocument(Repeatable):
    """A creative. Its `_id` is the key of its ad, see `ads.ad_key`."""

    _id: str
    campaign_id: str
    ad_unit_id: str
    # What the ad says, 1 to 500 characters.
    text: str
    # Where a click leads: an http or https URL.
    link: str
    # As the advertiser gave it; None for the size of the image.
    size: Size | None
    # Missing if the ad is text alone.
    image: NotRequired[ImageFacts]


CREATIVES = CollectionSpec(
    "ads.creatives",
    document=CreativeDocument,
    # The creatives that use an image.
    indexes=[IndexModel([("image.checksum", ASCENDING)], sparse=True)],
    shard_key={"_id": "hashed"},
)


@dataclass(frozen=True)
class Creative:
    """A creative as it is given. With `keeps_image`, the ad keeps the image that it has."""

    campaign_id: str
    ad_unit_id: str
    text: str
    link: str
    size: tuple[int, int] | None = None
    image: Image | None = None
    keeps_image: bool = False

    @property
    def key(self) -> str:
        return ad_key(self.campaign_id, self.ad_unit_id)

    def with_image(self, image: Image | None) -> Creative:
        return replace(self, image=image)

    @property
    def stored(self) -> Document:
        """The fields of the document besides its image."""
        named = {name: getattr(self, name) for name in ("campaign_id", "ad_unit_id", "text", "link")}
        return {**named, "size": None if self.size is None else dict(zip(_SIDES, self.size, strict=True))}


def require_creative(creative: Creative, *path: str) -> Creative:
    """Returns the creative with its text and link trimmed. Raises InvalidInput, which names the fields."""
    with InvalidInput.collect() as check:
        check(require_campaign_id, creative.campaign_id, *path, "campaign_id")
        check(require_id, creative.ad_unit_id, *path, "ad_unit_id")
        text = check(require_text, creative.text, *path, "text", longest=MAX_TEXT)
        link = check(require_web_url, creative.link, *path, "link")
        check(_require_size, creative.size, *path)
    return replace(creative, text=text, link=link)


def _require_size(size: tuple[int, int] | None, *path: str) -> None:
    for side, value in zip(_SIDES, size or (), strict=False):
        if not 1 <= value <= MAX_PIXELS:
            text = f"`{side}` must be between 1 and {MAX_PIXELS:,} pixels; got {value}."
            raise InvalidInput(text, *path, "size", side, code=InvalidInput.OUT_OF_RANGE, least=1, most=MAX_PIXELS)


async def set_creative(db: Database, creative: Creative, *, now: datetime, operation_id: str) -> CreativeDocument:
    """Sets what an ad shows, in place of what it has shown.

    Args:     creative: valid, see `require_creative`.
    Returns:  the creative after the write.
    Raises:   InvalidInput (there is no such campaign, or it is deactivated), OperationKeyReused (another image),
              Conflict (too many concurrent calls).
    Writes:   ads.images, then ads.creatives; one guarded update. Then ads.images, if a job was about to delete the
              image.
    """
    await _require_active(db, creative.campaign_id)
    image = creative.image
    if image is not None:
        await _note_image(db, image, operation_id)
        await images.store(db, image, now=now)
    stored = await _replace(db, creative, operation_id)
    if image is not None:
        await images.make_sure(db, image, now=now)
    await trim_marks(db, CREATIVES, stored)
    return stored


async def _require_active(db: Database, campaign_id: str) -> None:
    campaign = await db[CAMPAIGNS.name].find_one({"_id": campaign_id}, {"state": 1})
    if campaign is None:
        text = "There is no such campaign. Place one of its ads first."
        raise InvalidInput(text, "campaign_id", code=InvalidInput.UNKNOWN)
    if campaign["state"] != ACTIVE:
        text = "The campaign is deactivated, which is final. Use another campaign id."
        raise InvalidInput(text, "campaign_id", code=InvalidInput.NOT_ALLOWED)


async def _note_image(db: Database, image: Image, operation_id: str) -> None:
    """Notes the image of an operation. Raises OperationKeyReused if an earlier call with the key has another one."""
    noted = (await idempotency.notes(db, operation_id)).get("checksum")
    if noted is None:
        await idempotency.note(db, operation_id, checksum=image.facts["checksum"])
    elif noted != image.facts["checksum"]:
        raise OperationKeyReused


async def _replace(db: Database, creative: Creative, operation_id: str) -> CreativeDocument:
    update: Document = {"$set": creative.stored, **mark_applied(operation_id)}
    if creative.image is not None:
        update["$set"]["image"] = creative.image.facts
    elif not creative.keeps_image:
        update["$unset"] = {"image": ""}
    guard = {"_id": creative.key, **not_applied(operation_id)}
    async for _ in attempts():
        try:
            stored = await CREATIVES.of(db).find_one_and_update(
                guard, update, upsert=True, return_document=ReturnDocument.AFTER
            )
        except DuplicateKeyError:
            found = await find_creative(db, creative.key)
            if found is not None and was_applied(found, operation_id):
                return found
            # Another call has just created the creative.
        else:
            assert stored is not None, "an upsert has a document"
            return stored
    raise Conflict("Too many concurrent calls change the creative. Try again.")


async def find_creative(db: Database, key: str) -> CreativeDocument | None:
    """Returns the creative of the ad with this key."""
    return await CREATIVES.of(db).find_one({"_id": key})


async def forget_images(db: Database, *, now: datetime) -> int:
    """Deletes images that no creative has used for a day. Returns how many."""
    return await images.forget_unused(db, now=now, used_path=(CREATIVES.name, "image.checksum"))
