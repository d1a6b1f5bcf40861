"""Discussions by id, and how many comments they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resolvers import comment_storages, discussions
from resolvers.documents import Database, Document, DocumentId, Projection

from .batching import BatchRead


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, Document]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await discussions.find_by_ids(db, ids, projection)

    return read


def counts(db: Database) -> BatchRead[tuple[DocumentId, str], int]:
    """How many comments there are, by the id of the discussion and its storage."""

    async def read(keys: Sequence[tuple[DocumentId, str]]) -> Mapping[tuple[DocumentId, str], int]:
        found = await comment_storages.count_comments(db, dict(keys))
        return {key: found[key[0]] for key in keys}

    return read
