"""Looks for what has happened in the collections, where the change stream could not be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from portico.resolvers.documents import LENIENT, Document
from portico.resolvers.notifying import NotificationSource

from . import position
from .position import Missed, PositionDocument
from .storing import Storing

# The documents that one run reads.
_READ = 1_000
# The keys whose notifications are stored together.
_KEYS = 500

_Place = tuple[NotificationSource, NotificationSource.Backlog]


def first(sources: Sequence[NotificationSource], since: datetime) -> Missed | None:
    """Returns where to begin; None if no source has a backlog."""
    found = _places(sources)
    return _at(found[0], since) if found else None


async def read_on(storing: Storing, sources: Sequence[NotificationSource], at: PositionDocument) -> int:
    """Reads the next documents of the backlogs, and stores their notifications. Returns how many documents it read.

    Writes:   notifications, then the position. Two workers can do the same: each notification is stored once.
    """
    missed, found = at["missed"], _places(sources)
    place = next((one for one in found if _named(one) >= (missed["source"], missed["collection"])), None)
    if place is None:
        await position.move(storing.db, at, {"at": storing.now}, removes=("missed",))
        return 0
    after = missed.get("after") if _named(place) == (missed["source"], missed["collection"]) else None
    documents = await _read(storing, place, after, missed["since"])
    following = next((one for one in found if _named(one) > _named(place)), None)
    if len(documents) == _READ:
        next_: Missed = {**_at(place, missed["since"]), "after": documents[-1]["_id"]}
        await position.move(storing.db, at, {"missed": next_})
    elif following is not None:
        await position.move(storing.db, at, {"missed": _at(following, missed["since"])})
    else:
        await position.move(storing.db, at, {"at": storing.now}, removes=("missed",))
    storing.end()
    return len(documents) or 1


async def read_all(storing: Storing, sources: Sequence[NotificationSource], since: datetime) -> int:
    """Stores the notifications of all that is in the backlogs since then. Returns how many. Idempotent."""
    for place in _places(sources):
        documents = await _read(storing, place, None, since)
        while len(documents) == _READ:
            documents = await _read(storing, place, documents[-1]["_id"], since)
    return storing.end()


async def _read(storing: Storing, place: _Place, after: Any, since: datetime) -> list[Document]:
    """Stores the notifications of the next documents. Returns the documents."""
    source, backlog = place
    documents = await _documents(storing, backlog, after)
    keys: dict[Any, None] = {}
    for document in documents:
        try:
            keys.update(dict.fromkeys(backlog.keys(document, since)))
        except Exception as error:  # noqa: BLE001 - a damaged document concerns itself only
            error.add_note(f"In {backlog.spec.name}: {document['_id']!r}")
            storing.failures.append(error)
    ordered = list(keys)
    for start in range(0, len(ordered), _KEYS):
        await storing.store(source, ordered[start : start + _KEYS], since=since)
    return documents


async def _documents(storing: Storing, backlog: NotificationSource.Backlog, after: Any) -> list[Document]:
    shown = dict.fromkeys(("_id", *backlog.paths), 1)
    query: Document = {} if after is None else {"_id": {"$gt": after}}
    collection = storing.db[backlog.spec.name].with_options(codec_options=LENIENT)
    return await collection.find(query, shown, sort=[("_id", 1)], limit=_READ, batch_size=_READ + 1).to_list()


def _places(sources: Sequence[NotificationSource]) -> list[_Place]:
    return sorted(((source, one) for source in sources for one in source.backlogs), key=_named)


def _named(place: _Place) -> tuple[str, str]:
    return place[0].name, place[1].spec.name


def _at(place: _Place, since: datetime) -> Missed:
    source, collection = _named(place)
    return {"since": since, "source": source, "collection": collection}
