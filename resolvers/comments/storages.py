"""Reads of comments from all three storages, with one call for each storage."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from bson import ObjectId

from portico.resolvers.documents import Database, Projection
from portico.resolvers.errors import InvalidInput
from portico.resolvers.paging import Key, Page
from portico.resolvers.parts import as_part

from .comments import CommentListing, CommentRef, PublicComment
from .document_storage import DocumentStorage
from .embedded_storage import EmbeddedStorage
from .page_storage import PageStorage
from .storage import Storage

STORAGES: dict[str, Storage] = {
    storage.name: storage for storage in (DocumentStorage(), EmbeddedStorage(), PageStorage())
}
# A direct link: the storage, the discussion, and the slug.
Link = tuple[str, ObjectId, str]

K = TypeVar("K", bound=Hashable)


def _by_storage(keys: Sequence[K], storage_of: Any) -> dict[str, list[K]]:
    found: dict[str, list[K]] = {}
    for key in keys:
        found.setdefault(storage_of(key), []).append(key)
    return found


async def find_comments(
    db: Database, refs: Sequence[CommentRef], projection: Projection | None = None
) -> dict[CommentRef, PublicComment]:
    """Finds comments by reference, by one command for each storage, and one more for reply counts of EMBEDDED."""
    found: dict[CommentRef, Any] = {}
    for storage, some in _by_storage(refs, lambda ref: ref.storage).items():
        found |= await STORAGES[storage].find(db, some, projection)
    return found


async def find_by_links(
    db: Database, links: Sequence[Link], projection: Projection | None = None
) -> dict[Link, PublicComment]:
    """Finds comments by direct link."""
    found: dict[Link, Any] = {}
    for storage, some in _by_storage(links, lambda link: link[0]).items():
        comments = await STORAGES[storage].find_by_slug(db, [link[1:] for link in some], projection)
        found |= {(storage, *slug): comment for slug, comment in comments.items()}
    return found


async def find_comment_pages(
    db: Database,
    listings: Sequence[CommentListing],
    *,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> list[Page]:
    """Finds a page of each listing. Raises InvalidInput if `after` cannot be a key of comments."""
    if after is not None:
        _check_key(listings[0], after)
    pages: dict[CommentListing, Page] = {}
    for storage, some in _by_storage(listings, lambda listing: listing.storage).items():
        found = await STORAGES[storage].find_pages(db, some, first=first, after=after, projection=projection)
        pages |= dict(zip(some, found, strict=True))
    return [pages[listing] for listing in listings]


def _check_key(listing: CommentListing, key: Key) -> None:
    kinds = (str, ObjectId) if listing.is_threaded else (datetime, str, ObjectId)
    if not all(isinstance(value, kind) for value, kind in zip(key, kinds, strict=True)):
        raise InvalidInput("`after` is not a cursor of comments.", "after", code=InvalidInput.WRONG_FORMAT)


async def count_comments(db: Database, discussions: Mapping[ObjectId, str]) -> dict[ObjectId, int]:
    """Counts the listed comments of each discussion. `discussions` gives the storage of each."""
    return await as_part(db, lambda db: _count_comments(db, discussions))


async def _count_comments(db: Database, discussions: Mapping[ObjectId, str]) -> dict[ObjectId, int]:
    counts = dict.fromkeys(discussions, 0)
    for storage, some in _by_storage(list(discussions), discussions.__getitem__).items():
        counts |= await STORAGES[storage].count(db, some)
    return counts
