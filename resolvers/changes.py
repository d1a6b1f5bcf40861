"""What changes in the database, as it changes: one stream, for everything that is told of at once.

A change stream has each change that a majority has, once and in order. It is interrupted when a primary steps down, or
the network fails; then it is opened again behind the last change that it has given. The server remembers as far back as
its oplog goes.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from portico.resolvers.writes import retries
from portico.resolvers.writes.sweeps import DAMAGED

from .documents import LENIENT, CollectionSpec, Database, Document

# How long the server may hold back its answer that there is nothing new.
_AWAIT_MS = 1_000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
# The server cannot go on from where the stream was: the errors InvalidResumeToken, ChangeStreamFatalError and
# ChangeStreamHistoryLost.
_LOST = {260, 280, 286}
_LOST_LABEL = "NonResumableChangeStreamError"
# How many of the latest changes are remembered, so that none makes events twice.
_REMEMBERED = 1_000


class ChangesLost(Exception):
    """Some changes cannot be had any more. Whoever lives on them has to read afresh."""


@dataclass(slots=True, eq=False)
class Event:
    """Something that has happened, of which those are told that listen to its topic.

    `key` names what it is about; several events of a topic may have the same key. In `shared` those who are told of it
    keep what they have in common; None where that is long ago.
    """

    topic: Hashable
    key: Any
    shared: dict[Hashable, Any] | None = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Source:
    """What events are made of: the changes of some collections that match, of which these paths are fetched."""

    collections: frozenset[str]
    match: Document
    paths: Sequence[str]
    events: Callable[[Document], Iterable[Event]]


def inserts(spec: CollectionSpec, paths: Sequence[str], event: Callable[[Document], Event]) -> Source:
    """The source of an event for each document that is inserted into the collection.

    Args:     paths: what `event` reads of the document beside its `_id`.
    """
    return Source(
        frozenset({spec.name}),
        {"operationType": "insert"},
        tuple(f"fullDocument.{path}" for path in ("_id", *paths)),
        lambda change: (event(change["fullDocument"]),),
    )


async def follow(
    db: Database, sources: Sequence[Source], *, on_interruption: Callable[[PyMongoError], None]
) -> AsyncGenerator[Sequence[Event], None]:
    """The events from now on, each once, in the order of the database.

    The resume token of a change identifies it. A change that is delivered again makes no events; another change of the
    same object does.

    The first batch is empty: it says that the stream is open, so that nothing which is written from then on is missed.
    Later ones may be empty, too. An interruption is told of, and ended.

    Raises:   ChangesLost; a driver's error where the stream cannot be opened at first.
    """
    token: Mapping[str, Any] | None = None
    # What a majority has is never taken back.
    watched = db.with_options(read_concern=ReadConcern("majority"), codec_options=LENIENT)
    pause = _FIRST_PAUSE
    is_open = False
    seen = _Seen()
    while True:
        try:
            stream = await watched.watch(pipeline(sources), resume_after=token, max_await_time_ms=_AWAIT_MS)
            async with stream:
                token = stream.resume_token or token
                if not is_open:
                    is_open = True
                    yield ()
                while stream.alive:
                    change = await stream.try_next()
                    token, pause = stream.resume_token or token, _FIRST_PAUSE
                    yield () if change is None or seen.again(change) else _events(sources, change)
        except PyMongoError as error:
            if not is_open:
                raise
            if _is_lost(error):
                raise ChangesLost from error
            on_interruption(error)
            await retries.pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            # The database was dropped: what is made in its place is another one.
            raise ChangesLost


class _Seen:
    """The latest changes, by their resume tokens."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, None] = OrderedDict()

    def again(self, change: Document) -> bool:
        """Whether this change has come before. It is remembered."""
        token = change["_id"]["_data"]
        if token in self._tokens:
            return True
        self._tokens[token] = None
        if len(self._tokens) > _REMEMBERED:
            self._tokens.popitem(last=False)
        return False


def _is_lost(error: PyMongoError) -> bool:
    if error.has_error_label(_LOST_LABEL):
        return True
    return isinstance(error, OperationFailure) and error.code in _LOST


def pipeline(sources: Sequence[Source]) -> list[Document]:
    """What the server sends of all that changes: what a source needs, and no more."""
    paths = {"operationType", "ns", *(path for source in sources for path in source.paths)}
    matches = [{"ns.coll": {"$in": sorted(source.collections)}, **source.match} for source in sources]
    return [{"$match": {"$or": matches}}, {"$project": dict.fromkeys(sorted(paths), 1)}]


def _events(sources: Sequence[Source], change: Document) -> list[Event]:
    """What has happened by this change. A damaged change, which nothing of Portico has made, is no event."""
    found: list[Event] = []
    for source in sources:
        if change["ns"]["coll"] in source.collections:
            with contextlib.suppress(*DAMAGED):
                events = list(source.events(change))
                # What cannot be a key in a dictionary names nothing that somebody listens to.
                hash(tuple((event.topic, event.key) for event in events))
                found += events
    return found
