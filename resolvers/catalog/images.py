"""The images of products and categories.

A product and a category list their images, with everything that a page shows of them. The bytes are in `images`, one
document for each image, together with its thumbnails. So an image is stored and deleted by one command, and none of its
parts can be left behind. Images are bounded at a few megabytes for this; large photos are in the content, in GridFS.

The `_id` of an image is derived from its owner and its bytes, so the same file is stored once for an owner. `unsettled`
is the record of intent, from before the owner lists the image until after, and again before it is removed:

    stored, unsettled --the owner lists it--> settled --unsettled again, the owner no longer lists it--> deleted

`image_jobs` settles what a crash has left: it keeps the image if the owner lists it, and deletes it otherwise. Each
step names the time in `unsettled`, which every writer sets anew, so a step that comes late changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import WriteError

from portico.resolvers.documents import CollectionSpec, Database, Projection, Versioned
from portico.resolvers.paging import page_size
from portico.resolvers.pictures import SUFFIXES, Pictures, width_for
from portico.resolvers.typed import TypedDict

# Where the gateway serves the bytes.
PATH = "/images"
MAX_IMAGES = 20
MAX_ALT = 500


class ListedImage(TypedDict):
    """An image as its owner lists it."""

    _id: ObjectId
    content_type: str
    # Pixels, as it is displayed.
    width: int
    height: int
    # What it shows, for people who do not see it.
    alt: str


class ImageDocument(Versioned):
    """The bytes of an image."""

    _id: ObjectId
    # The kind and the `_id` of the owner, and the SKU of a product.
    kind: str
    of: ObjectId
    sku: NotRequired[str]
    content_type: str
    width: int
    height: int
    # SHA-256 in hexadecimal.
    checksum: str
    data: bytes
    # WebP, by the width in pixels. Made at the first request.
    thumbnails: NotRequired[dict[str, bytes]]
    # It is not certain that the owner lists the image, since this time, UTC.
    unsettled: NotRequired[datetime]


IMAGES = CollectionSpec(
    "images",
    document=ImageDocument,
    shard_key={"_id": "hashed"},
    indexes=[IndexModel([("of", ASCENDING)]), IndexModel([("unsettled", ASCENDING)], sparse=True)],
)


def image_id(of: ObjectId, checksum: str) -> ObjectId:
    """Returns the `_id` of an image with these bytes, of this owner."""
    return ObjectId(hashlib.blake2b(of.binary + bytes.fromhex(checksum), digest_size=12).digest())


def path_of(image: Mapping[str, Any]) -> str:
    """Returns the path of the bytes on this server. Other bytes have another path."""
    return f"{PATH}/{image['_id']}.{SUFFIXES[image['content_type']]}"


def path_of_thumbnail(image: Mapping[str, Any], width: int) -> str:
    """Returns the path of a thumbnail. `width` is 16 or more."""
    return f"{path_of(image)}?width={width_for(width, image['width'])}"


def first_images(owner: Mapping[str, Any], first: int) -> Sequence[Mapping[str, Any]]:
    """Returns the first images of a product or a category. Raises InvalidInput."""
    size = page_size(first, MAX_IMAGES, most=MAX_IMAGES)
    found: Sequence[Mapping[str, Any]] = (owner.get("images") or ())[:size]
    return found


async def find_image(db: Database, key: ObjectId, projection: Projection | None = None) -> ImageDocument | None:
    return await IMAGES.of(db).find_one({"_id": key}, projection)


async def get_thumbnail(db: Database, image: ImageDocument, width: int, pictures: Pictures) -> bytes:
    """Returns a thumbnail of an image that was read whole. Makes and stores it if needed. `width` is one of `WIDTHS`.

    Raises:   PictureBroken.
    Writes:   images; one update, which does nothing if the image was deleted meanwhile.
    """
    stored = image.get("thumbnails", {}).get(str(width))
    if stored is not None:
        return stored

    async def original() -> Any:
        yield bytes(image["data"])

    made = await pictures.thumbnail(original(), width)
    # If the document would become too large, the thumbnail is made at each request.
    with contextlib.suppress(WriteError):
        await db[IMAGES.name].update_one({"_id": image["_id"]}, {"$set": {f"thumbnails.{width}": made}})
    return made


async def unsettle_images(db: Database, of: ObjectId, *, now: datetime) -> None:
    """Marks all images of an owner that is about to be deleted, and that gets no more images."""
    await db[IMAGES.name].update_many({"of": of}, {"$set": {"unsettled": now}})


async def delete_images(db: Database, of: ObjectId) -> None:
    """Deletes the images of a deleted owner."""
    await db[IMAGES.name].delete_many({"of": of})
