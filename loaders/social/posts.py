"""Batched reads of posts, of their comments and of their votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers import keyed
from portico.resolvers.documents import Database, Document, DocumentId, Projection
from portico.resolvers.paging import Key, Page
from portico.resolvers.social import comment_reads, post_lists, vote_reads
from portico.resolvers.social.listed_posts import PostList
from portico.resolvers.social.posts import POSTS
from portico.resolvers.social.visibility import primary


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, Document]:
    """Makes the batched read by id, from the primary: a deletion is seen as soon as it is acknowledged."""

    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await keyed.find_by_keys(primary(db), POSTS, ids, projection=projection)

    return read


def comment_pages(db: Database, *, viewer: str | None, first: int, after: Key | None) -> BatchRead[DocumentId, Page]:
    async def read(posts: Sequence[DocumentId]) -> Mapping[DocumentId, Page]:
        return await comment_reads.find_comment_pages(db, posts, viewer=viewer, first=first, after=after)

    return read


def hidden_comment_pages(db: Database, *, author: str, first: int, after: Key | None) -> BatchRead[DocumentId, Page]:
    """Makes the batched read of the comments that the author of posts does not see because of a block."""

    async def read(posts: Sequence[DocumentId]) -> Mapping[DocumentId, Page]:
        return await comment_reads.find_hidden(db, posts, author=author, first=first, after=after)

    return read


def latest_comments(db: Database, *, viewer: str | None, last: int) -> BatchRead[DocumentId, list[Document]]:
    async def read(posts: Sequence[DocumentId]) -> Mapping[DocumentId, list[Document]]:
        return await comment_reads.find_latest(db, posts, viewer=viewer, last=last)

    return read


def votes(db: Database, *, viewer: str | None) -> BatchRead[DocumentId, Document]:
    async def read(polls: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await vote_reads.find_votes(db, polls, viewer=viewer)

    return read


def pages(
    db: Database, *, viewer: str | None, first: int, after: Key | None, projection: Projection | None
) -> BatchRead[PostList, Page]:
    async def read(lists: Sequence[PostList]) -> Mapping[PostList, Page]:
        return await post_lists.find_pages(db, lists, viewer=viewer, first=first, after=after, projection=projection)

    return read
