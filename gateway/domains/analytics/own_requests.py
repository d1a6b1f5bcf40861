"""The gateway's own requests as log events: `PORTICO_LOG_REQUESTS`.

A request adds a tuple to a queue, and a task of the process records what waits there. While MongoDB does not answer,
requests wait in the queue. If it is full, they are not logged, and counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from random import random
from typing import NamedTuple

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from portico.gateway.http.streaming import address_of
from portico.gateway.logs import logger
from portico.gateway.state import State
from portico.resolvers.analytics.log_recording import MAX_NAME, MAX_TEXT, LogEvent, checked_event, record
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.resolvers.declarations import Counter, Resources, Service
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.tasks import end

# They come from the machines that watch the gateway, and not from its users.
UNLOGGED = frozenset({"/livez", "/readyz", "/metrics"})
# In requests. About 50 MB at most.
MAX_WAITING = 5_000
BATCH = 500
SECONDS = 1.0
# How long a gateway that stops records the requests that wait.
STOP_SECONDS = 2.0
_ATTEMPTS = 2
_PAUSE_SECONDS = 1.0
# Longer names of programs and referrers are cut.
_MAX_HEADER = 1_000
# As nginx says it: the client was gone before there was a response.
_CLIENT_GONE = 499
_FAULT = 500


class Handled(NamedTuple):
    """A request that the gateway has handled. The bytes come from the client, and need not be valid."""

    host: str
    subject: str | None
    time: datetime
    method: str
    path: bytes
    status: int
    response_size: int
    referrer: bytes
    user_agent: bytes

    def document(self) -> Document:
        """Returns the document of its log event. Raises InvalidInput.

        A query can hold the variables of an operation, or the terms of a search, so no query is logged.
        """
        event = LogEvent(
            host=self.host[:MAX_NAME],
            user=self.subject and _text(self.subject.encode(errors="surrogatepass"))[:MAX_NAME],
            time=self.time,
            method=self.method,
            path=_text(self.path.partition(b"?")[0])[:MAX_TEXT],
            status=self.status,
            response_size=self.response_size,
            referrer=_text(self.referrer.partition(b"?")[0].partition(b"#")[0]),
            user_agent=_text(self.user_agent),
        )
        return checked_event(event, not_before=None)


def _text(given: bytes) -> str:
    """Returns the bytes as text, in which those that are not UTF-8 are escaped."""
    return given.decode(errors="backslashreplace")


class RequestLog:
    """The requests of this process that wait to be recorded, and how many were recorded and were not."""

    def __init__(self, db: Database) -> None:
        self.recorded = self.lost = 0
        self._db = db
        self._waiting: deque[Handled] = deque()
        self._has_batch = asyncio.Event()
        self._is_stopping = False

    def put(self, request: Handled) -> None:
        """Adds a request. If the queue is full, only counts it."""
        if len(self._waiting) >= MAX_WAITING:
            self.lost += 1
            return
        self._waiting.append(request)
        if len(self._waiting) >= BATCH:
            self._has_batch.set()

    async def run(self) -> None:
        """Records what waits, each second, or sooner if there is a whole batch, until `stop` is called."""
        while not self._is_stopping:
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS):
                    await self._has_batch.wait()
            self._has_batch.clear()
            while self._waiting:
                await self._record_batch()

    def stop(self) -> None:
        """Makes `run` record what waits at once, and return."""
        self._is_stopping = True
        self._has_batch.set()

    def give_up(self) -> None:
        """Counts the requests that wait as lost."""
        self._lose(len(self._waiting))
        self._waiting.clear()

    async def _record_batch(self) -> None:
        """Records up to 500 requests. Tries once more if MongoDB does not answer: the events keep their ids."""
        taken = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        events: list[Document] = []
        for request in taken:
            with suppress(InvalidInput):
                events.append(request.document())
        is_recorded = False
        try:
            is_recorded = await self._record(events)
        finally:
            if is_recorded:
                self.recorded += len(events)
            self._lose(len(taken) - (len(events) if is_recorded else 0))

    async def _record(self, events: Sequence[Document]) -> bool:
        """Inserts the events. Returns whether MongoDB has acknowledged them."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS)
            try:
                await record(self._db, events, durability="ACKNOWLEDGED")
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a batch, later ones are recorded
                logger().warning("cannot log requests", requests=len(events), error=str(error)[:_MAX_HEADER])
            else:
                return True
        return False

    def _lose(self, number: int) -> None:
        self.lost += number


@asynccontextmanager
async def _opened(settings: Resources, db: Database) -> AsyncIterator[RequestLog]:
    """Records requests until the block ends, and then those that wait, for two seconds."""
    log = RequestLog(db)
    if settings.of(AnalyticsSettings).log_requests is None:
        yield log
        return
    running = asyncio.create_task(log.run())
    try:
        yield log
    finally:
        log.stop()
        await asyncio.wait({running}, timeout=STOP_SECONDS)
        await end(running)
        log.give_up()


class _Response:
    """Passes on the messages of a response, and keeps its status and its size in bytes."""

    __slots__ = ("_send", "size", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = self.size = 0

    async def send(self, message: Message) -> None:
        await self._send(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.size += len(message.get("body", b""))


class _LogRequests:
    """Middleware that logs a share of the requests over HTTP."""

    def __init__(self, app: ASGIApp, share: float, state: Callable[[], State]) -> None:
        self._app = app
        self._share = share
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # 1.0 chooses all: `random` is below it.
        if scope["type"] != "http" or scope["path"] in UNLOGGED or random() >= self._share:  # noqa: S311 - no secret
            await self._app(scope, receive, send)
            return
        state = self._state()
        began = state.clock.now()
        response = _Response(send)
        otherwise = _CLIENT_GONE
        try:
            await self._app(scope, receive, response.send)
        except Exception:
            otherwise = _FAULT
            raise
        finally:
            state.resources.of(RequestLog).put(
                _handled(scope, state, began, response.status or otherwise, response.size)
            )


def _handled(scope: Scope, state: State, began: datetime, status: int, size: int) -> Handled:
    given = {name: value for name, value in scope["headers"] if name in _HEADERS}
    token = given.get(b"authorization")
    caller = None if token is None else state.authenticator.known(token.decode("latin-1"))
    return Handled(
        address_of(scope) or "-",
        None if caller is None else caller.subject,
        began,
        scope["method"],
        scope.get("raw_path") or scope["path"].encode(),
        status,
        size,
        given.get(b"referer", b"")[:_MAX_HEADER],
        given.get(b"user-agent", b"")[:_MAX_HEADER],
    )


_HEADERS = frozenset({b"authorization", b"referer", b"user-agent"})


def middleware(settings: Resources, state: Callable[[], State]) -> Sequence[Middleware]:
    """Returns the middleware that logs requests; none if they are not logged."""
    share = settings.of(AnalyticsSettings).log_requests
    return [] if share is None else [Middleware(partial(_LogRequests, share=share, state=state))]


SERVICE = Service(RequestLog, _opened)
COUNTERS = (
    Counter(
        "portico_requests_logged",
        "Requests that PORTICO_LOG_REQUESTS chose, and that are log events.",
        lambda resources: resources.of(RequestLog).recorded,
    ),
    Counter(
        "portico_requests_not_logged",
        "Requests that PORTICO_LOG_REQUESTS chose, and that are lost: MongoDB did not answer, or too many waited.",
        lambda resources: resources.of(RequestLog).lost,
    ),
)
