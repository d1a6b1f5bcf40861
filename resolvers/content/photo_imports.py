"""Imports of photos, by gallery and slug. May be repeated."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from portico.resolvers.documents import Author, Database
from portico.resolvers.errors import InvalidInput
from portico.resolvers.import_outcomes import Outcome, outcome_of
from portico.resolvers.writes.marks import random_operation_id
from portico.resolvers.writes.timer import Timer

from .creation import NewNode, create_section
from .edits import Edit, add_tags, edit_metadata
from .nodes import GALLERY, PHOTO, SECTION, NodeDocument, Path, find_by_paths, parse_path
from .photo_uploads import UploadRules, replace_photo, upload_photo
from .rules import require_tags, require_title


@dataclass(frozen=True)
class PhotoRecord:
    """A photo to import. `gallery` is a path. Each call of `read` yields the bytes from their beginning."""

    slug: str
    title: str
    gallery: str
    author: str
    tags: tuple[str, ...]
    read: Callable[[], AsyncIterator[bytes]]
    checksum: str | None = None


async def import_photos(
    db: Database, records: Sequence[PhotoRecord], *, rules: UploadRules, now: datetime
) -> list[Outcome]:
    """Creates or updates the photos, one after the other, and creates missing galleries.

    Writes:   as `upload_photo`, `replace_photo` and `edit_metadata`. Adds tags, but removes none.
    """
    timer = Timer(now)
    return [await outcome_of(_import(db, record, rules, timer.now())) for record in records]


async def _import(db: Database, record: PhotoRecord, rules: UploadRules, now: datetime) -> Outcome:
    author: Author = {"id": record.author, "name": record.author}
    checksum = await _checksum(record)
    if record.checksum is not None and record.checksum.strip().lower() != checksum:
        raise InvalidInput("the checksum does not match the bytes of the file", "sha256")
    gallery, found = await _find_place(db, record, author, now)
    if found is None:
        node = NewNode(record.slug, record.title, author, gallery["_id"], list(record.tags), parent_name="gallery")
        await upload_photo(db, node=node, file=record.read(), rules=rules, now=now, operation_id=random_operation_id())
        return "created"
    if found["type"] != PHOTO:
        raise InvalidInput(f"the node {record.gallery}/{record.slug} is not a photo", "slug")
    return await _change(db, record, found, checksum, author, rules, now)


async def _checksum(record: PhotoRecord) -> str:
    digest = hashlib.sha256()
    async for piece in record.read():
        digest.update(piece)
    return digest.hexdigest()


async def _find_place(
    db: Database, record: PhotoRecord, author: Author, now: datetime
) -> tuple[NodeDocument, NodeDocument | None]:
    """Returns the gallery, created if it is missing, and the node at the photo's path, or None."""
    way = parse_path(record.gallery)
    if way is None:
        raise InvalidInput("it must be a path, e.g. /gallery", "gallery")
    place: Path = (*way, record.slug)
    nodes = await find_by_paths(db, [way[:-1], way, place] if len(way) > 1 else [way, place])
    gallery = nodes.get(way)
    if gallery is None:
        above = nodes.get(way[:-1])
        if len(way) > 1 and above is None:
            raise InvalidInput(f"there is no section /{'/'.join(way[:-1])}", "gallery")
        title = way[-1].replace("-", " ").capitalize()
        node = NewNode(way[-1], title, author, None if above is None else above["_id"])
        gallery = await create_section(db, node=node, kind=GALLERY, now=now, operation_id=random_operation_id())
    if gallery["type"] != SECTION or gallery["detail"]["kind"] != GALLERY:
        raise InvalidInput(f"the node {record.gallery} is not a gallery", "gallery")
    return gallery, nodes.get(place)


async def _change(
    db: Database,
    record: PhotoRecord,
    photo: NodeDocument,
    checksum: str,
    author: Author,
    rules: UploadRules,
    now: datetime,
) -> Outcome:
    outcome: Outcome = "unchanged"
    if photo["detail"].get("checksum") != checksum:
        photo = await replace_photo(
            db,
            photo_id=photo["_id"],
            nonce=photo["nonce"],
            file=record.read(),
            rules=rules,
            now=now,
            operation_id=random_operation_id(),
        )
        outcome = "changed"
    # Compares the normalized values, as they would be stored.
    title, tags = require_title(record.title), require_tags(record.tags)
    if photo["title"] != title:
        edit = Edit(photo["_id"], photo["nonce"], author, now, random_operation_id())
        await edit_metadata(db, edit, changes={"title": title})
        outcome = "changed"
    if not set(tags) <= set(photo["tags"]):
        await add_tags(
            db,
            node_id=photo["_id"],
            tags=tags,
            now=now,
            operation_id=random_operation_id(),
        )
        outcome = "changed"
    return outcome
