"""The images of creatives, one document an image. Images are named by their bytes, so an address never changes.

An image has 1 MB at most, so one document holds all of it: one write stores it, and no crash leaves a part. Creatives
with the same bytes share an image.

A job deletes images that no creative has used for a day. It must not delete one that a creative begins to use. Both
sides *mark, then look*:

* A creative stores its image, or touches the one that is there. It then names it, and looks: if the image is gone, or
  marked as ending, it stores it again, which removes the mark.
* The job marks an old image as ending, with a random token. It then looks for creatives that name it. If there is one,
  it removes the mark. Otherwise it deletes the image if it still has this token.

If the creative names the image before the job looks, the job finds it. Otherwise the mark came before the creative
looks, so the creative finds the mark or nothing, and stores the image again: before the deletion, which then finds no
token, or after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import NotRequired
from uuid import uuid4

from bson import Binary
from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.errors import UnacceptableFile
from portico.resolvers.pictures import SIGNATURE_BYTES, SUFFIXES, Picture, Pictures
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.sweeps import sweep

# Bytes of a file, pixels of a side, and pixels of an image; of an animation in all frames together.
MAX_BYTES = 1_000_000
MAX_SIDE = 4_096
MAX_PIXELS = 40_000_000
PATH = "/ads/images"
_UNUSED_FOR = timedelta(days=1)


class ImageFacts(TypedDict):
    """What a creative says about its image."""

    # SHA-256 of the bytes in hexadecimal: the `_id` of the image.
    checksum: str
    content_type: str
    # Pixels, as it is displayed.
    width: int
    height: int


class ImageDocument(Versioned):
    """An image. Its `_id` is the SHA-256 of its bytes in hexadecimal."""

    _id: str
    data: bytes
    content_type: str
    width: int
    height: int
    # When a creative or the job last found a use for it.
    used_at: datetime
    # The token of the run that may delete it.
    ending: NotRequired[str]


IMAGES = CollectionSpec(
    "ads.images",
    document=ImageDocument,
    indexes=[IndexModel([("used_at", ASCENDING)])],
    shard_key={"_id": "hashed"},
)


@dataclass(frozen=True)
class ImageRules:
    """Decodes the images of creatives. A resource of the domain."""

    pictures: Pictures


@dataclass(frozen=True)
class Image:
    """A decoded image with its bytes."""

    data: bytes
    picture: Picture

    @property
    def facts(self) -> ImageFacts:
        shown = self.picture
        return {
            "checksum": hashlib.sha256(self.data).hexdigest(),
            "content_type": shown.content_type,
            "width": shown.width,
            "height": shown.height,
        }


def path_of(facts: ImageFacts) -> str:
    """Returns the path of an image on this server."""
    return f"{PATH}/{facts['checksum']}.{SUFFIXES[facts['content_type']]}"


async def receive(file: AsyncIterator[bytes], rules: ImageRules) -> Image:
    """Reads a file and decodes it. Raises UnacceptableFile, and the errors of `file`."""
    data = bytearray()
    async for piece in file:
        data += piece
        if len(data) > MAX_BYTES:
            raise UnacceptableFile(f"The file has more than {MAX_BYTES:,} bytes.")
    if not rules.pictures.recognizes(bytes(data[:SIGNATURE_BYTES])):
        raise UnacceptableFile(f"The file must have one of these types: {', '.join(SUFFIXES)}.")
    return Image(bytes(data), await rules.pictures.examine(_whole(bytes(data))))


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def store(db: Database, image: Image, *, now: datetime) -> None:
    """Stores an image, or keeps the one that has these bytes from being deleted. May be repeated."""
    facts = image.facts
    new = {name: value for name, value in facts.items() if name != "checksum"} | {"data": Binary(image.data)}
    update = {"$set": {"used_at": now}, "$unset": {"ending": ""}, "$setOnInsert": new}
    await db[IMAGES.name].update_one({"_id": facts["checksum"]}, update, upsert=True)


async def make_sure(db: Database, image: Image, *, now: datetime) -> None:
    """Stores an image again if it is gone, or if a job may delete it; after a creative has named it."""
    found = await db[IMAGES.name].find_one({"_id": image.facts["checksum"], "ending": None}, {"_id": 1})
    if found is None:
        await store(db, image, now=now)


async def find_image(db: Database, checksum: str) -> ImageDocument | None:
    return await IMAGES.of(db).find_one({"_id": checksum})


async def forget_unused(db: Database, *, now: datetime, used_path: tuple[str, str]) -> int:
    """Deletes images that no creative has used for a day. Returns how many.

    Args:     used_path: the collection of creatives, and the path at which they name their images.
    """
    old = {"used_at": {"$lte": now - _UNUSED_FOR}}
    return await sweep(db, IMAGES, old, partial(_forget, db, now, used_path), fields=("used_at",))


async def _forget(db: Database, now: datetime, used_path: tuple[str, str], image: ImageDocument) -> int:
    images, (users, path) = db[IMAGES.name], used_path
    mine = {"_id": image["_id"], "ending": uuid4().hex}
    as_read = {"_id": image["_id"], "used_at": image["used_at"]}
    if not (await images.update_one(as_read, {"$set": {"ending": mine["ending"]}})).matched_count:
        return 0
    if await db[users].find_one({path: image["_id"]}, {"_id": 1}) is not None:
        kept: Document = {"$set": {"used_at": now}, "$unset": {"ending": ""}}
        await images.update_one(mine, kept)
        return 0
    return (await images.delete_one(mine)).deleted_count
