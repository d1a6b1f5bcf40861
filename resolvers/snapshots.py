"""Reads of several collections as of one point in time, for checks of data that changes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from .documents import CollectionSpec, Database, Document

_ATTEMPTS = 20
_PAUSE = 0.01
_SNAPSHOT_TOO_OLD = 239


async def read_at_one_time(
    db: Database, spec: CollectionSpec, stages: Sequence[Document], *, batch_size: int
) -> list[Document]:
    """Returns the documents of an aggregation of the collection, which can look up others."""
    at_once = db[spec.name].with_options(read_concern=ReadConcern("snapshot"))
    for attempt in range(_ATTEMPTS):
        try:
            return await (await at_once.aggregate(stages, batchSize=batch_size)).to_list()
        except OperationFailure as error:
            # A server can be configured to keep no history. Then a snapshot can expire before it is read.
            if error.code != _SNAPSHOT_TOO_OLD or attempt == _ATTEMPTS - 1:
                raise
        await asyncio.sleep(_PAUSE * attempt)
    return []
