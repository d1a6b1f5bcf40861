"""Documents as they are now, with the time of the database at which they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bson import Timestamp
from bson.codec_options import CodecOptions

from .documents import LENIENT_FOR_REPAIRS, Database, Document

_A_COMMAND = 200
_OPTIONS: CodecOptions[Any] = LENIENT_FOR_REPAIRS


class Current:
    """Documents by the `repr` of their `_id`. `time` is the database's time at which they were read.

    One that is not in `found` is deleted, or did not fit into the batch.
    """

    def __init__(self) -> None:
        self.found: dict[str, Document] = {}
        self.time = Timestamp(0, 0)

    def add(self, answer: Mapping[str, Any]) -> None:
        cursor = answer["cursor"]
        self.found.update({repr(document["_id"]): document for document in cursor["firstBatch"]})
        self.time = max(self.time, answer.get("operationTime") or Timestamp(2**32 - 1, 0))


async def current_documents(db: Database, collection: str, ids: Sequence[Any], paths: Sequence[str]) -> Current:
    """Reads the paths of the documents with these ids, by one command for 200 of them. Without paths, all."""
    current = Current()
    for start in range(0, len(ids), _A_COMMAND):
        some = ids[start : start + _A_COMMAND]
        command: Document = {"find": collection, "filter": {"_id": {"$in": list(some)}}, "singleBatch": True}
        command["batchSize"] = len(some) + 1
        if paths:
            command["projection"] = dict.fromkeys(paths, 1)
        current.add(await db.command(command, codec_options=_OPTIONS))
    return current
