"""Photos that come in files: each below its gallery, by its slug; safe to repeat."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.import_outcomes import Outcome, outcome_of
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.timer import Timer

from .creation import NewNode, create_section
from .edits import Edit, add_tags, edit_metadata
from .nodes import GALLERY, PHOTO, SECTION, Path, find_by_paths, parse_path
from .photo_uploads import UploadRules, replace_photo, upload_photo
from .rules import require_tags, require_title


@dataclass(frozen=True)
class PhotoRecord:
    """A photo to store. `gallery` is a path, `read` gives the bytes from their beginning, as often as it is called."""

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
    """Stores the photos, one after the other, and the galleries that are missing. What is as it should be stays.

    Writes:   as `upload_photo`, `replace_photo` and `edit_metadata`. Tags are added, and none is taken away.
    """
    timer = Timer(now)
    return [await outcome_of(_import(db, record, rules, timer.now())) for record in records]


async def _import(db: Database, record: PhotoRecord, rules: UploadRules, now: datetime) -> Outcome:
    author = {"id": record.author, "name": record.author}
    checksum = await _checksum(record)
    if record.checksum is not None and record.checksum.strip().lower() != checksum:
        raise InvalidInput("the file is another: its bytes have another checksum", "sha256")
    gallery, found = await _find_place(db, record, author, now)
    if found is None:
        node = NewNode(record.slug, record.title, author, gallery["_id"], list(record.tags), parent_name="gallery")
        await upload_photo(
            db, node=node, file=record.read(), rules=rules, now=now, operation_id=idempotency.random_operation_id()
        )
        return "created"
    if found["type"] != PHOTO:
        raise InvalidInput(f"{record.gallery}/{record.slug} is no photo", "slug")
    return await _change(db, record, found, checksum, author, rules, now)


async def _checksum(record: PhotoRecord) -> str:
    digest = hashlib.sha256()
    async for piece in record.read():
        digest.update(piece)
    return digest.hexdigest()


async def _find_place(
    db: Database, record: PhotoRecord, author: Document, now: datetime
) -> tuple[Document, Document | None]:
    """The gallery, which is made if need be, and what stands at the photo's place."""
    way = parse_path(record.gallery)
    if way is None:
        raise InvalidInput("a path is wanted, e.g. /gallery", "gallery")
    place: Path = (*way, record.slug)
    nodes = await find_by_paths(db, [way[:-1], way, place] if len(way) > 1 else [way, place])
    gallery = nodes.get(way)
    if gallery is None:
        above = nodes.get(way[:-1])
        if len(way) > 1 and above is None:
            raise InvalidInput(f"there is no section /{'/'.join(way[:-1])}", "gallery")
        title = way[-1].replace("-", " ").capitalize()
        node = NewNode(way[-1], title, author, None if above is None else above["_id"])
        gallery = await create_section(
            db, node=node, kind=GALLERY, now=now, operation_id=idempotency.random_operation_id()
        )
    if gallery["type"] != SECTION or gallery["detail"]["kind"] != GALLERY:
        raise InvalidInput(f"{record.gallery} is no gallery", "gallery")
    return gallery, nodes.get(place)


async def _change(
    db: Database,
    record: PhotoRecord,
    photo: Document,
    checksum: str,
    author: Document,
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
            operation_id=idempotency.random_operation_id(),
        )
        outcome = "changed"
    # What would be stored is compared, not what is written in the file.
    title, tags = require_title(record.title), require_tags(record.tags)
    if photo["title"] != title:
        edit = Edit(photo["_id"], photo["nonce"], author, now, idempotency.random_operation_id())
        await edit_metadata(db, edit, changes={"title": title})
        outcome = "changed"
    if not set(tags) <= set(photo["tags"]):
        await add_tags(
            db,
            node_id=photo["_id"],
            tags=tags,
            now=now,
            operation_id=idempotency.random_operation_id(),
        )
        outcome = "changed"
    return outcome
