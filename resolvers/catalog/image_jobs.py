"""Settles images that a crash has left unsettled, and checks that images and owners agree."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database
from portico.resolvers.problems import Problem
from portico.resolvers.writes.sweeps import sweep

from .image_edits import CATEGORY, PRODUCT, is_listed, owners_of
from .images import IMAGES, ImageDocument

# A call stores the decoded bytes and lists them at once, so an older mark was left by a crash.
STALE_AFTER = timedelta(minutes=1)
_IMAGE = Problem.named("image")


async def settle_images(db: Database, *, now: datetime) -> int:
    """Settles images that their owners list, and deletes the others. Returns how many.

    Raises:   SweepFailed, after trying every image.
    """

    async def settle(image: ImageDocument) -> int:
        mine = {"_id": image["_id"], "unsettled": image["unsettled"]}
        if await is_listed(db, image):
            await db[IMAGES.name].update_one(mine, {"$unset": {"unsettled": ""}})
        else:
            await db[IMAGES.name].delete_one(mine)
        return 1

    stale = {"unsettled": {"$lte": now - STALE_AFTER}}
    return await sweep(db, IMAGES, stale, settle, fields=("kind", "of", "sku", "unsettled"))


async def find_stray_images(db: Database) -> AsyncIterator[Problem]:
    """Yields images that no owner lists."""
    found = IMAGES.of(db).find({"unsettled": None}, {"kind": 1, "of": 1, "sku": 1})
    async for problem in Problem.all_in(found, partial(_strays, db), _IMAGE):
        yield problem


async def _strays(db: Database, images: list[ImageDocument]) -> AsyncIterator[Problem]:
    for image in images:
        if not await is_listed(db, image):
            yield Problem(_IMAGE(image), "nothing shows it", partial(_delete, db, image["_id"]))


async def _delete(db: Database, key: ObjectId) -> None:
    await db[IMAGES.name].delete_one({"_id": key})


async def find_missing_images(db: Database) -> AsyncIterator[Problem]:
    """Yields products and categories that list images without bytes."""
    for kind in (PRODUCT, CATEGORY):
        found = owners_of(db, kind).find({"images._id": {"$exists": True}}, {"slug": 1, "images": 1})
        async for problem in Problem.all_in(found, partial(_missing, db, kind), Problem.named(kind.lower())):
            yield problem


async def _missing(db: Database, kind: str, owners: list[Mapping[str, Any]]) -> AsyncIterator[Problem]:
    keys = [image["_id"] for owner in owners for image in owner["images"]]
    stored = {image["_id"] async for image in IMAGES.of(db).find({"_id": {"$in": keys}}, {"_id": 1})}
    for owner in owners:
        gone = [image["_id"] for image in owner["images"] if image["_id"] not in stored]
        if gone:
            mend = partial(_forget, db, kind, owner["_id"], gone)
            yield Problem(Problem.named(kind.lower())(owner), f"{len(gone)} of its images have no bytes", mend)


async def _forget(db: Database, kind: str, owner: ObjectId, keys: list[ObjectId]) -> None:
    await owners_of(db, kind).update_one({"_id": owner}, {"$pull": {"images": {"_id": {"$in": keys}}}})
