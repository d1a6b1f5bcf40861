"""The pictures of the demo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from portico.resolvers.content.creation import NewNode, create_section
from portico.resolvers.content.nodes import GALLERY, find_by_paths
from portico.resolvers.content.photo_uploads import UploadRules, upload_photo
from portico.resolvers.documents import Author, Database
from portico.resolvers.writes.marks import random_operation_id
from portico.resolvers.writes.timer import Timer

from . import records
from .landscapes import LANDSCAPES, Landscape, draw

_AUTHOR: Author = {"id": "demo", "name": "Portico"}


async def add_pictures(db: Database, rules: UploadRules, *, now: datetime) -> int:
    """Draws the demo's missing pictures and uploads them to its gallery. Returns the number of pictures.

    May be repeated.
    """
    places = {(records.GALLERY, landscape.slug): landscape for landscape in LANDSCAPES}
    found = await find_by_paths(db, [(records.GALLERY,), *places], {"slug": 1})
    gallery = found.get((records.GALLERY,))
    if gallery is None:
        node = NewNode(records.GALLERY, "Gallery", _AUTHOR)
        gallery = await create_section(db, node=node, kind=GALLERY, now=now, operation_id=random_operation_id())
    timer = Timer(now)
    for number, (place, landscape) in enumerate(places.items()):
        if place not in found:
            # The times differ, so that lists by time always have the same order.
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
