"""A database that has lost the reply to every `find_one_and_update`, so that the driver has sent it again.

The server then does not write again. It returns the document as it was after the write, whole: it ignores the
projection.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

from bson import Int64

from portico.resolvers.documents import Database, Document


class RepeatedWrites:
    def __init__(self, db: Database) -> None:
        self._db = db

    @classmethod
    def of(cls, db: Database) -> Database:
        return cast("Database", cls(db))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def __getitem__(self, name: str) -> _Collection:
        return _Collection(self._db, name)


class _Collection:
    def __init__(self, db: Database, name: str) -> None:
        self._db = db
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db[self._name], name)

    async def find_one_and_update(
        self,
        query: Mapping[str, Any],
        update: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        projection: Mapping[str, Any] | None = None,
        *,
        upsert: bool = False,
        return_document: bool = False,
    ) -> Document | None:
        command: Document = {
            "findAndModify": self._name,
            "query": query,
            "update": update,
            "upsert": upsert,
            "new": return_document,
            **({"fields": projection} if projection else {}),
        }
        started: Any = self._db.client.start_session()
        async with await started if inspect.isawaitable(started) else started as session:
            # The driver numbers the writes of a session, and gives it to other callers afterwards.
            await self._db.command("ping", session=session)
            # Motor wraps the session of PyMongo.
            own = getattr(session, "delegate", session)
            own._start_retryable_write()  # noqa: SLF001 - the driver alone numbers its writes
            command["txnNumber"] = Int64(own._server_session.transaction_id)  # noqa: SLF001 - as above
            first = await self._db.command(command, session=session)
            again = await self._db.command(command, session=session)
        assert bool(first["value"]) == bool(again["value"])
        found: Document | None = again["value"]
        return found
