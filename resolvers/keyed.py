"""Reads of any collection in pages, which upgrade outdated documents."""

from __future__ import annotations

from collections.abc import Sequence

from . import paging
from .documents import CollectionSpec, D, Database, Projection, upgrade_read
from .paging import Key, Listing, Page


async def find_pages(
    db: Database,
    spec: CollectionSpec[D],
    listings: Sequence[Listing],
    *,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> list[Page[D]]:
    """Returns a page of each listing, up to a hundred by one command."""
    pages = await paging.find_pages(spec.of(db), listings, first=first, after=after, projection=projection)
    for page in pages:
        page.documents = await upgrade_read(db, spec, page.documents, projection)
    return pages
