"""Writes to the images of products and categories. `images` describes the steps, and what a crash leaves."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import Binary, ObjectId
from pymongo import ReturnDocument

from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, NotFound, UnacceptableFile
from portico.resolvers.import_outcomes import Outcome, outcome_of
from portico.resolvers.pictures import SUFFIXES, Pictures
from portico.resolvers.texts import require_text
from portico.resolvers.writes.timer import Timer

from .categories import CATEGORIES
from .images import IMAGES, MAX_ALT, MAX_IMAGES, ImageDocument, ListedImage, image_id
from .products import PRODUCTS

PRODUCT, CATEGORY = "Product", "Category"
_OWNERS: Mapping[str, CollectionSpec[Any]] = {PRODUCT: PRODUCTS, CATEGORY: CATEGORIES}


async def _no_download(url: str) -> AsyncIterator[bytes]:
    """Downloads nothing."""
    raise UnacceptableFile(f"The file at {url} cannot be downloaded here.")
    yield b""


@dataclass(frozen=True)
class ImageRules:
    """The limits of images: the most bytes of a file, what decodes it, and what downloads the file at a URL."""

    max_bytes: int
    pictures: Pictures
    download: Callable[[str], AsyncIterator[bytes]] = _no_download


@dataclass(frozen=True)
class Owner:
    """A product, by its SKU, or a category, by its `_id`."""

    kind: str
    key: Any

    @property
    def query(self) -> Document:
        return {("sku" if self.kind == PRODUCT else "_id"): self.key}


@dataclass(frozen=True)
class ImageRecord:
    """An image to import: of the product with this SKU, or of the category with this slug.

    `read` reads a file; if it is None, the file is at `url`.
    """

    kind: str
    name: str
    alt: str
    read: Callable[[], AsyncIterator[bytes]] | None
    url: str = ""


def owners_of(db: Database, kind: str) -> Any:
    """Returns the collection of the owners of this kind."""
    return _OWNERS[kind].of(db)


async def add_image(
    db: Database, owner: Owner, *, alt: str, file: AsyncIterator[bytes], rules: ImageRules, now: datetime
) -> Document:
    """Adds an image behind the others. If the owner has the same file, changes its `alt`.

    Returns:  the owner.
    Raises:   NotFound (the owner), InvalidInput (`alt`; too many images), UnacceptableFile, Conflict (the owner is
              being deleted); and the errors of `file`.
    Writes:   images, then the owner, then images; see `images`.
    """
    alt = require_text(alt, "alt", longest=MAX_ALT) if alt else ""
    present, timer = await _require(db, owner), Timer(now)
    image = await _examined(present, owner.kind, file, rules)
    key = {"_id": image["_id"]}
    # The upload can take longer than until a mark is stale.
    now = timer.now()
    await db[IMAGES.name].update_one(key, {"$set": {**image, "unsettled": now}}, upsert=True)
    listed: ListedImage = {
        "_id": image["_id"],
        "content_type": image["content_type"],
        "width": image["width"],
        "height": image["height"],
        "alt": alt,
    }
    added = await _list(db, owner, present["_id"], listed)
    settled = await db[IMAGES.name].update_one({**key, "unsettled": now}, {"$unset": {"unsettled": ""}})
    if not settled.matched_count and await IMAGES.of(db).find_one(key, {"_id": 1}) is None:
        # This call has paused for so long that a job has deleted the image.
        await owners_of(db, owner.kind).update_one(owner.query, {"$pull": {"images": key}})
        raise Conflict("The upload took too long. Try again.")
    return added


async def _require(db: Database, owner: Owner) -> Document:
    found: Document | None = await owners_of(db, owner.kind).find_one(owner.query, {"sku": 1})
    if found is None:
        raise NotFound(owner.kind, str(owner.key))
    return found


async def _examined(present: Document, kind: str, file: AsyncIterator[bytes], rules: ImageRules) -> Document:
    """Reads and decodes the file. Returns the document of the image, with its height."""
    data = await _received(file, rules)
    if not rules.pictures.recognizes(data[:16]):
        raise UnacceptableFile(f"The file must have one of these types: {', '.join(SUFFIXES)}.")
    picture = await rules.pictures.examine(_pieces(data))
    checksum = hashlib.sha256(data).hexdigest()
    return {
        "_id": image_id(present["_id"], checksum),
        "kind": kind,
        "of": present["_id"],
        **({"sku": present["sku"]} if kind == PRODUCT else {}),
        "content_type": picture.content_type,
        "width": picture.width,
        "height": picture.height,
        "checksum": checksum,
        "data": Binary(data),
    }


async def _received(file: AsyncIterator[bytes], rules: ImageRules) -> bytes:
    """Returns the whole file. Raises UnacceptableFile as soon as it is too large."""
    data = bytearray()
    async for piece in file:
        data += piece
        if len(data) > rules.max_bytes:
            raise UnacceptableFile(f"The file has more than {rules.max_bytes:,} bytes.")
    return bytes(data)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _list(db: Database, owner: Owner, of: ObjectId, image: ListedImage) -> Document:
    """Adds the image to the owner, or changes its `alt`. Returns the owner. Raises NotFound, InvalidInput, Conflict."""
    owners = owners_of(db, owner.kind)
    # An owner that is being deleted gets no image: the deletion has marked those that it deletes.
    mine = {**owner.query, "_id": of, "deleting": None}
    is_new = {"images._id": {"$ne": image["_id"]}, f"images.{MAX_IMAGES - 1}": {"$exists": False}}
    after = {"return_document": ReturnDocument.AFTER}
    added: Document | None = await owners.find_one_and_update({**mine, **is_new}, {"$push": {"images": image}}, **after)
    if added is None:
        had = {**mine, "images._id": image["_id"]}
        added = await owners.find_one_and_update(had, {"$set": {"images.$.alt": image["alt"]}}, **after)
    if added is not None:
        return added
    present = await owners.find_one({**owner.query, "_id": of}, {"deleting": 1})
    if present is None:
        raise NotFound(owner.kind, str(owner.key))
    if present.get("deleting") is not None:
        raise Conflict("Somebody else is deleting it. Try again.")
    text = f"There are {MAX_IMAGES} images already. Remove one first."
    raise InvalidInput(text, "file", code=InvalidInput.TOO_MANY, most=MAX_IMAGES)


async def remove_image(db: Database, owner: Owner, key: ObjectId, *, now: datetime) -> Document:
    """Removes an image. Removing it again changes nothing.

    Returns:  the owner.
    Raises:   NotFound (the owner).
    Writes:   images, then the owner, then images; see `images`.
    """
    present = await _require(db, owner)
    mine = {"_id": key, "of": present["_id"]}
    await db[IMAGES.name].update_one(mine, {"$set": {"unsettled": now}})
    left: Document | None = await owners_of(db, owner.kind).find_one_and_update(
        {**owner.query, "_id": present["_id"]},
        {"$pull": {"images": {"_id": key}}},
        return_document=ReturnDocument.AFTER,
    )
    await db[IMAGES.name].delete_one({**mine, "unsettled": now})
    if left is None:
        raise NotFound(owner.kind, str(owner.key))
    return left


async def import_images(
    db: Database, records: Sequence[ImageRecord], *, rules: ImageRules, now: datetime
) -> list[Outcome]:
    """Adds the images to their owners, one after the other. May be repeated.

    Returns:  the outcome of each record: `created`, `changed` (another `alt`) or `unchanged`.
    """
    timer = Timer(now)
    return [await outcome_of(_import(db, record, rules, timer)) for record in records]


async def _import(db: Database, record: ImageRecord, rules: ImageRules, timer: Timer) -> Outcome:
    query = {("sku" if record.kind == PRODUCT else "slug"): record.name}
    present: Document | None = await owners_of(db, record.kind).find_one(query, {"sku": 1, "images": 1})
    if present is None:
        raise NotFound(record.kind, record.name)
    listed: dict[ObjectId, ListedImage] = {image["_id"]: image for image in present.get("images", ())}
    # Read once: the file at a URL can change.
    data = await _received(rules.download(record.url) if record.read is None else record.read(), rules)
    key = image_id(present["_id"], hashlib.sha256(data).hexdigest())
    if key in listed and listed[key]["alt"] == record.alt:
        return "unchanged"
    owner = Owner(record.kind, present["sku"] if record.kind == PRODUCT else present["_id"])
    await add_image(db, owner, alt=record.alt, file=_pieces(data), rules=rules, now=timer.now())
    return "changed" if key in listed else "created"


async def is_listed(db: Database, image: Mapping[str, Any] | ImageDocument) -> bool:
    """Returns whether the owner lists the image."""
    query = {"_id": image["of"], "images._id": image["_id"], **({"sku": image["sku"]} if "sku" in image else {})}
    return await owners_of(db, image["kind"]).find_one(query, {"_id": 1}) is not None
