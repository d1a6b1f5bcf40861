"""Checks creatives and their images."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator

from pymongo import ASCENDING

from portico.resolvers.documents import Database
from portico.resolvers.errors import InvalidInput
from portico.resolvers.problems import Problem
from portico.resolvers.urls import require_web_url

from .ads import ad_key
from .creatives import CREATIVES, CreativeDocument
from .images import IMAGES, ImageDocument

_CREATIVE, _IMAGE = Problem.named("ad creative"), Problem.named("ad image")
# Images of up to 1 MB each.
_IMAGES_AT_ONCE = 10


async def find_wrong_creatives(db: Database) -> AsyncIterator[Problem]:
    """Yields creatives whose link nobody may follow, or whose image is missing."""

    async def find(batch: list[CreativeDocument]) -> AsyncIterator[Problem]:
        wanted = [one["image"]["checksum"] for one in batch if "image" in one]
        there = {image["_id"] async for image in IMAGES.of(db).find({"_id": {"$in": wanted}}, {"_id": 1})}
        for creative in batch:
            for text in _wrong_with(creative, there):
                yield Problem(_CREATIVE(creative), text, is_open="image" in text)

    async for problem in Problem.all_in(CREATIVES.of(db).find({}, sort=[("_id", ASCENDING)]), find, _CREATIVE):
        yield problem


def _wrong_with(creative: CreativeDocument, images: set[str]) -> Iterator[str]:
    if creative["_id"] != ad_key(creative["campaign_id"], creative["ad_unit_id"]):
        yield "its `_id` is not that of its ad"
    try:
        require_web_url(creative["link"])
    except InvalidInput as error:
        yield f"its link cannot be followed: {error.message}"
    if "image" in creative and creative["image"]["checksum"] not in images:
        yield f"its image {creative['image']['checksum']} is missing"


async def find_wrong_images(db: Database) -> AsyncIterator[Problem]:
    """Yields images whose bytes are not those that their `_id` names."""

    async def find(batch: list[ImageDocument]) -> AsyncIterator[Problem]:
        for image in batch:
            if hashlib.sha256(image["data"]).hexdigest() != image["_id"]:
                yield Problem(_IMAGE(image), "its bytes do not match its checksum")

    found = IMAGES.of(db).find({}, sort=[("_id", ASCENDING)], batch_size=_IMAGES_AT_ONCE)
    async for problem in Problem.all_in(found, find, _IMAGE, _IMAGES_AT_ONCE):
        yield problem
