"""Sends small writes over the wire without the driver, whose overhead is most of the cost of a small write.

An insert, an update, a deletion, a bulk of updates, and `find_one_and_update` go to the primary of a replica set, on a
connection that is taken over from the driver (`links`). They wait for a majority, or for the primary alone. If no
connection is idle, or the write is large, or has other options, the driver sends it: nothing has been sent then.

A write must have its effect once, even if the reply is lost. MongoDB has retryable writes for that: it remembers the
latest write of a session by its number, and answers a repetition without repeating the effect.

1. Each write in flight has a session of its own, and a number that is larger than all earlier ones of the session.
2. If the reply is lost, or says that the write can be retried, the write is sent again in the same session with the
   same number, on a link to the primary or by the driver. This is repeated until the write times out.
3. Only a session whose write got its reply is used again. So no later number makes MongoDB forget a write in doubt.

The driver also uses the sessions that it has lent before, from a small number on. The numbers here begin with the time
in nanoseconds, which no counter reaches, and a session goes back to the driver only when everything is closed.

A write on which a later one relies may wait for the primary alone: see `waiting_once`. Its session stays with it until
the later write is done, so it can be sent again with its number.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Sequence
from typing import Any

import bson
from bson import Int64
from pymongo import AsyncMongoClient, timeout
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
    WriteError,
    WTimeoutError,
)
from pymongo.monitoring import CommandListener
from pymongo.results import BulkWriteResult, UpdateResult

from portico.resolvers.answer_bounds import METER
from portico.resolvers.documents import CODEC, Database, Document
from portico.resolvers.writes.waiting_once import WAITING, Notes, Waiting

from .links import Link, Links, Lost, Primary
from .messages import CLOSING_CODES, HEAD, CommandEvent, message

# Larger writes go by the driver, which splits them.
_MOST_BYTES = 1_000_000
_PAUSE_SECONDS = 0.05
# Where the elements of an answer begin in its reply.
_BODY_AT = HEAD.size + 4
_DUPLICATE_KEY = 11000
_MAX_TIME_EXPIRED = 50
_RETRYABLE = "RetryableWriteError"
# The answer to an insert, an update or a deletion that has succeeded: how many documents matched, the election and the
# time of the operation, which nobody reads here, how many documents have changed, and `ok`.
_DONE = re.compile(
    rb"\x10n\0(?P<n>.{4})\x07electionId\0.{12}\x03opTime\0\x1c\0\0\0.{24}"
    rb"(?:\x10nModified\0(?P<modified>.{4}))?\x01ok\0\0{6}\xf0\x3f",
    re.DOTALL,
)
_MAJORITY, _PRIMARY_ALONE = {"w": "majority"}, {"w": 1}


def _decoded(reply: bytes) -> Document:
    """Returns the answer in a reply. Of a write that has succeeded, it is only what callers read."""
    done = _DONE.match(reply, _BODY_AT)
    if done is None:
        answer: Document = bson.decode(memoryview(reply)[HEAD.size :], CODEC)
        return answer
    matched, modified = done.group("n", "modified")
    answer = {"n": int.from_bytes(matched, "little"), "ok": 1.0}
    if modified is not None:
        answer["nModified"] = int.from_bytes(modified, "little")
    return answer


class _Session:
    """A session of the driver, for one write at a time."""

    def __init__(self, client: AsyncMongoClient[Document]) -> None:
        self.lent: AsyncClientSession = client.start_session(causal_consistency=False)
        self._id = self.lent.session_id
        self._numbers = itertools.count(time.time_ns())

    def numbered(self, command: Document, concern: Document) -> Document:
        """Returns the command with the session, the next number and a write concern."""
        number = Int64(next(self._numbers))
        return {**command, "lsid": self._id, "txnNumber": number, "writeConcern": concern}


class _Unconfirmed:
    """A write that its primary has acknowledged alone, with its session. `sent_at` is a monotonic time before that."""

    __slots__ = ("_answer", "_command", "_is_confirmed", "_primary", "_sent_at", "_session", "_writer")

    def __init__(
        self, writer: Writer, command: Document, session: _Session, answer: Document, primary: Primary, sent_at: float
    ) -> None:
        self._writer = writer
        self._command = command
        self._session: _Session | None = session
        self._answer = answer
        self._primary = primary
        self._sent_at = sent_at
        self._is_confirmed = False

    def is_implied_by(self, link: Link) -> bool:
        """Returns whether a server that accepts a write on this link certainly has this one: see `waiting_once`."""
        return self._is_confirmed or (self._primary is link.primary and link.opened_at < self._sent_at)

    async def confirm(self) -> None:
        """Sends it again, to wait for a majority. Raises AutoReconnect if it was rolled back, or is forgotten."""
        if self._is_confirmed:
            return
        session, self._session = self._session, None
        if session is None:
            raise AutoReconnect("What a write relies on is not confirmed.")
        answer = await self._writer.confirmed(self._command, session)
        if _effect(self._command, answer) != _effect(self._command, self._answer):
            raise AutoReconnect("What a write relies on was rolled back.")
        self._is_confirmed = True
        self._writer.reuse(session)

    def release(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._writer.reuse(session)


def _has_all(link: Link | None, notes: Notes) -> bool:
    """Returns whether a server that accepts a write on this link certainly has all notes."""
    return link is not None and all(isinstance(one, _Unconfirmed) and one.is_implied_by(link) for one in notes.waiting)


class Writer:
    """Sends writes of one database to the primary, over links that it opens on demand."""

    def __init__(
        self,
        client: AsyncMongoClient[Document],
        database: Database,
        seconds: float,
        listeners: Sequence[CommandListener],
    ) -> None:
        self._client = client
        self._database = database
        self._seconds = seconds
        self._listeners = listeners
        self._links = Links(client)
        self._sessions: list[_Session] = []
        self._common = {"maxTimeMS": int(seconds * 1000), "$db": database.name}

    async def write(self, command: Document, *, waits: bool = True) -> Document | None:
        """Returns the answer to a write, see `require_done`. None: nothing was sent, so the caller uses the driver.

        Args:     waits: whether to wait for a majority, and not for the primary alone.
        Raises what `bson.encode` raises, and the errors of the driver if the connection is lost and does not return.
        """
        waiting = WAITING.get()
        # A connection may have been opened since the notes were sent. One that is older implies them.
        link = self._links.idle(oldest=waiting is not None and waiting.is_decision)
        if link is None:
            self._links.open_another()
        if waiting is not None and waiting.is_decision and not _has_all(link, waiting.notes):
            await self._confirmed(link, waiting.notes)
        if link is None:
            return None
        session = answer = None
        try:
            if link.primary.election is None:
                return None
            session = self._sessions.pop() if self._sessions else _Session(self._client)
            is_alone = not waits or (waiting is not None and not waiting.is_decision)
            numbered = session.numbered(command, _PRIMARY_ALONE if is_alone else _MAJORITY)
            sent = message({**numbered, **self._common})
            if len(sent) > _MOST_BYTES:
                self._sessions.append(session)
                if waiting is not None:
                    await waiting.notes.confirm()
                return None
            began = time.monotonic()
            answer = await self._ask(link, numbered, sent, began + self._seconds)
        finally:
            self._links.give_back(link)
        if answer is None or _is_retryable(answer):
            return await self._once_more(numbered, sent, session, waiting, began + self._seconds)
        if waiting is None or waiting.is_decision or not _count(answer):
            # What has matched nothing is no note. MongoDB does not remember it either: sent again, it could match.
            self._sessions.append(session)
        else:
            waiting.notes.waiting.append(_Unconfirmed(self, numbered, session, answer, link.primary, began))
        return answer

    async def _once_more(
        self, command: Document, sent: bytes, session: _Session, waiting: Waiting | None, deadline: float
    ) -> Document:
        """Sends a write again whose effect is in doubt. If it is part of a decision, waits for a majority each time."""
        if waiting is not None:
            await waiting.notes.confirm()
            command = {**command, "writeConcern": _MAJORITY}
            sent = message({**command, **self._common})
        return await self._again(command, sent, session, deadline)

    async def _confirmed(self, link: Link | None, notes: Notes) -> None:
        """Confirms the notes of a write that goes on this link. If one of them is lost, gives the link back."""
        try:
            await notes.confirm()
        except BaseException:
            if link is not None:
                self._links.give_back(link)
            raise

    async def confirmed(self, command: Document, session: _Session) -> Document:
        """Sends a write again with its number until it is on a majority. Returns the answer."""
        numbered = {**command, "writeConcern": _MAJORITY}
        sent = message({**numbered, **self._common})
        answer = await self._again(numbered, sent, session, time.monotonic() + self._seconds)
        require_done(answer)
        return answer

    def reuse(self, session: _Session) -> None:
        """Takes back the session of a write that is never sent again."""
        self._sessions.append(session)

    async def _ask(self, link: Link, command: Document, sent: bytes, deadline: float) -> Document | None:
        """Returns the answer; None if it is lost."""
        event = CommandEvent.begin(self._listeners, command, link.primary.address, self._database.name)
        answer: Document | None = None
        try:
            reply = await link.ask(sent, deadline)
            if (meter := METER.get()) is not None:
                meter.count(len(reply))
            answer = _decoded(reply)
        except Lost:
            return None
        finally:
            if event is not None:
                event.end(answer)
        if answer.get("code") in CLOSING_CODES:
            link.close()
        return answer

    async def _again(self, command: Document, sent: bytes, session: _Session, deadline: float) -> Document:
        """Sends a write whose effect is in doubt, until there is an answer. Its session is not used again."""
        while True:
            answer = await self._on_link(command, sent, deadline)
            if answer is None:
                answer = await self._by_driver(command, session, deadline)
            if answer is not None and (not _is_retryable(answer) or time.monotonic() >= deadline):
                return answer
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _on_link(self, command: Document, sent: bytes, deadline: float) -> Document | None:
        """Returns the answer; None if no link is open, or the answer is lost."""
        link = self._links.idle()
        if link is None:
            self._links.open_another()
            return None
        try:
            return await self._ask(link, command, sent, deadline)
        finally:
            self._links.give_back(link)

    async def _by_driver(self, command: Document, session: _Session, deadline: float) -> Document | None:
        """Returns the answer; None if the write can be sent again. Raises the error of the driver at the deadline."""
        writing = {name: value for name, value in command.items() if name != "lsid"}
        try:
            with timeout(max(deadline - time.monotonic(), _PAUSE_SECONDS)):
                # The driver adds the session, and what else it needs.
                return dict(await self._database.command(writing, session=session.lent, codec_options=CODEC))
        except ConfigurationError as error:
            # A node that has just been started says that it knows no sessions. The driver keeps such a connection.
            if time.monotonic() >= deadline:
                raise AutoReconnect(str(error)) from error
        except PyMongoError as error:
            is_lost = isinstance(error, ConnectionFailure) and not isinstance(error, ServerSelectionTimeoutError)
            if not (is_lost or error.has_error_label(_RETRYABLE)) or time.monotonic() >= deadline:
                raise
        return None

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._links.connections

    async def close(self) -> None:
        await self._links.close()
        while self._sessions:
            await self._sessions.pop().lent.end_session()


def _count(answer: Document) -> int:
    """Returns how many documents a write has matched or inserted."""
    count: int = answer.get("lastErrorObject", answer).get("n", 0)
    return count


def _effect(command: Document, answer: Document) -> tuple[int, Any]:
    """Returns the count of a write, and the whole document that it has returned, if any.

    MongoDB answers a repeated write with the whole document, whatever its projection is.
    """
    return _count(answer), None if command.get("fields") else answer.get("value")


def _is_retryable(answer: Document) -> bool:
    return _RETRYABLE in answer.get("errorLabels", ())


def update_result(answer: Document) -> UpdateResult:
    """Returns the result of an update that has succeeded, as the driver would."""
    result = {"n": answer["n"], "nModified": answer["nModified"]}
    if upserted := answer.get("upserted"):
        result["upserted"] = upserted[0]["_id"]
    return UpdateResult(result, acknowledged=True)


def bulk_result(answer: Document) -> BulkWriteResult:
    """Returns the result of a bulk of updates, as the driver would. Raises its error if one of them failed."""
    _require_ok(answer)
    upserted = answer.get("upserted", [])
    unconfirmed = _unconfirmed(answer)
    result = {
        "writeErrors": answer.get("writeErrors", []),
        "writeConcernErrors": [] if unconfirmed is None else [unconfirmed],
        "nInserted": 0,
        "nUpserted": len(upserted),
        "nMatched": answer["n"] - len(upserted),
        "nModified": answer["nModified"],
        "nRemoved": 0,
        "upserted": upserted,
    }
    if result["writeErrors"] or result["writeConcernErrors"]:
        raise BulkWriteError(result)
    return BulkWriteResult(result, acknowledged=True)


def require_done(answer: Document) -> None:
    """Raises the error of the driver for a write that has failed, or that is not on a majority."""
    _require_ok(answer)
    for error in answer.get("writeErrors", ()):
        kind: type[WriteError] = DuplicateKeyError if error.get("code") == _DUPLICATE_KEY else WriteError
        raise kind(error.get("errmsg"), error.get("code"), error)
    if unconfirmed := _unconfirmed(answer):
        is_late = unconfirmed.get("errInfo", {}).get("wtimeout")
        kind_of_wait = WTimeoutError if is_late else WriteConcernError
        raise kind_of_wait(str(unconfirmed.get("errmsg")), unconfirmed.get("code"), unconfirmed)


def _require_ok(answer: Document) -> None:
    """Raises the error of the driver for a command that has failed as a whole."""
    if answer["ok"]:
        return
    text, code = str(answer.get("errmsg")), answer.get("code")
    if code == _DUPLICATE_KEY:
        raise DuplicateKeyError(text, code, answer)
    raise (ExecutionTimeout if code == _MAX_TIME_EXPIRED else OperationFailure)(text, code, answer)


def _unconfirmed(answer: Document) -> Document | None:
    """Returns why a write is not on a majority, with the labels of the answer."""
    error: Document | None = answer.get("writeConcernError")
    if error is None or "errorLabels" not in answer:
        return error
    return {**error, "errorLabels": answer["errorLabels"]}
