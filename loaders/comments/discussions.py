"""Batched reads of discussions by id, and of their comment counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.comments import discussions
from portico.resolvers.comments import storages as comment_storages
from portico.resolvers.comments.discussions import DiscussionDocument
from portico.resolvers.documents import Database, DocumentId, Projection


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, DiscussionDocument]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, DiscussionDocument]:
        return await discussions.find_by_ids(db, ids, projection)

    return read


def counts(db: Database, storage: str) -> BatchRead[DocumentId, int]:
    """Makes the batched read of the comment counts of discussions with this storage."""

    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, int]:
        return await comment_storages.count_comments(db, dict.fromkeys(ids, storage))

    return read
