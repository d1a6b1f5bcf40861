"""Reads of any collection by key and in pages, which upgrade outdated documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import paging
from .documents import CollectionSpec, D, Database, Document, Projection, upgrade_read, with_paths, with_version
from .paging import Key, Listing, Page
from .projections import value_at


async def find_by_keys(
    db: Database,
    spec: CollectionSpec[D],
    keys: Sequence[Any],
    *,
    path: str = "_id",
    projection: Projection | None = None,
) -> dict[Any, D]:
    """Returns the documents with these keys at the path, by key. Leaves out missing keys. One command."""
    query: Document = {path: keys[0] if len(keys) == 1 else {"$in": list(keys)}}
    wanted = None if projection is None else with_paths(projection, path)
    found = await spec.of(db).find(query, with_version(wanted), batch_size=len(keys) + 1).to_list()
    return {value_at(document, path): document for document in await upgrade_read(db, spec, found, wanted)}


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
