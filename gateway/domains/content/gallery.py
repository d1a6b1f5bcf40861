"""Pictures of the demo, and pictures in files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

from portico.resolvers.content.creation import NewNode, create_section
from portico.resolvers.content.nodes import GALLERY, find_by_paths
from portico.resolvers.content.photo_uploads import UploadRules, upload_photo
from portico.resolvers.documents import Database
from portico.resolvers.errors import InvalidInput
from portico.resolvers.writes.idempotency import random_operation_id
from portico.resolvers.writes.timer import Timer

from .landscapes import LANDSCAPES, Landscape, draw

SLUG = "gallery"
_AUTHOR = {"id": "demo", "name": "Portico"}
_PIECE = 256 * 1024


async def add_pictures(db: Database, rules: UploadRules, *, now: datetime) -> int:
    """Draws the demo's pictures and puts them into its gallery. Returns how many there are. May be repeated."""
    places = {(SLUG, landscape.slug): landscape for landscape in LANDSCAPES}
    found = await find_by_paths(db, [(SLUG,), *places], {"slug": 1})
    gallery = found.get((SLUG,))
    if gallery is None:
        node = NewNode(SLUG, "Gallery", _AUTHOR)
        gallery = await create_section(db, node=node, kind=GALLERY, now=now, operation_id=random_operation_id())
    timer = Timer(now)
    for number, (place, landscape) in enumerate(places.items()):
        if place not in found:
            # Each has a time of its own, so that lists by time have one order.
            at = now + timedelta(milliseconds=number)
            tags = list(landscape.tags)
            node = NewNode(landscape.slug, landscape.title, _AUTHOR, gallery["_id"], tags, created=at)
            await upload_photo(
                db,
                node=node,
                file=_drawn(landscape),
                rules=rules,
                now=timer.now(),
                operation_id=random_operation_id(),
            )
    return len(places)


async def _drawn(landscape: Landscape) -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(draw, landscape)


class PictureFile:
    """A picture in a file that a record names.

    It is in the folder of the file that the record stands in, below it, or in the folder beside it that has its name:
    `photos/` for `photos.jsonl`.
    """

    def __init__(self, records: Path, name: str) -> None:
        """Raises InvalidInput for a name that leads elsewhere, or to no file."""
        folder = records.parent
        namesake = folder / records.name.partition(".")[0]
        try:
            found = [place / name for place in (folder, namesake) if (place / name).is_file()]
            self._path = found[0] if found else folder / name
            is_inside = self._path.resolve().is_relative_to(folder.resolve())
        except (OSError, ValueError):
            # No file can be called so: the name is too long, or holds a NUL.
            raise InvalidInput("there is no such file", "file") from None
        if not is_inside:
            raise InvalidInput("it leads out of the folder", "file")
        if not found:
            raise InvalidInput("there is no such file", "file")

    async def read(self) -> AsyncIterator[bytes]:
        file = await asyncio.to_thread(self._path.open, "rb")
        try:
            while piece := await asyncio.to_thread(file.read, _PIECE):
                yield piece
        finally:
            await asyncio.to_thread(file.close)
