"""Responses as server-sent events: a `next` event for each response, then a `complete` event.

Source: the protocol of graphql-sse, "distinct connections mode"; the HTML standard, "Server-sent events".
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from graphql import OperationType
from starlette.types import Receive, Send

from portico.gateway.auth import ExpiredToken, InvalidToken
from portico.gateway.ended import Ended, Stopping, TooSlow
from portico.gateway.logs import logger
from portico.gateway.operations.admission import Overloaded
from portico.gateway.operations.encoding import EncodedResponse, event_of
from portico.gateway.operations.execution import Progress
from portico.gateway.operations.responses import FAULTS, Response
from portico.gateway.resuming import Resumable
from portico.resolvers.tasks import end
from portico.schema.context import Context, derived

from .requests import EVENT_TYPE, Request
from .sending import within
from .streaming import Session, responses

# How long the gateway tries to send the last event, which says why the stream ended.
LAST_SECONDS = 60.0
# How long browsers wait before they connect again.
_RETRY_MS = (200, 1_500)
_HEADERS = (
    (b"content-type", f"{EVENT_TYPE}; charset=utf-8".encode()),
    (b"cache-control", b"no-store"),
    # Tells proxies not to buffer the response.
    (b"x-accel-buffering", b"no"),
)
_COMPLETE = b"event: complete\ndata: \n\n"
# Clients ignore a comment. It keeps the connection open.
_COMMENT = b":\n\n"


class ClientGone(Exception):
    """The client has closed the connection."""


async def send_answer(send: Send, response: Response, request_id: str) -> None:
    """Sends the one answer of an operation that has ended as events."""
    added = [(name.lower().encode(), value.encode()) for name, value in response.headers.items()]
    headers = [*_HEADERS, (b"x-request-id", request_id.encode()), *added]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": EncodedResponse.of(response).event + _COMPLETE})


class EventStream:
    """One HTTP response that is sent as events. The client ends it by closing the connection."""

    def __init__(self, session: Session, context: Context, receive: Receive, send: Send) -> None:
        self._session = session
        self._context = context
        self._receive = receive
        self._send = send
        self._settings = session.state.settings
        self._progress = Progress()
        self._resumable: Resumable | None = None
        self._wants_ids = False
        self._starting = asyncio.Lock()
        # Whether the operation can have many responses.
        self._lasts = False
        self._has_begun = False
        self._is_sending = False
        self._idle_since = time.monotonic()

    async def run(self, request: Request) -> None:
        """Sends the responses until there are no more or the client disconnects. A mutation still runs to its end.

        Raises:   Overloaded, before anything is sent.
        """
        gone = asyncio.create_task(self._until_gone())
        last = _COMPLETE
        executor = self._session.state.executor
        try:
            async with aclosing(self._responses(request)) as answers:
                self._lasts = executor.lasts(request.query, request.operation_name, request.variables)
                # The headers of a subscription's response say that it is live. All other responses start at once,
                # unless the operation may be refused.
                kind = executor.kind_of(request.query, request.operation_name)
                if kind is not OperationType.SUBSCRIPTION and not executor.queries.is_full:
                    await self._start()
                await self._relay(answers, gone)
        except ClientGone:
            return
        except Overloaded as overloaded:
            if not self._has_begun:
                raise
            last = _next({"errors": [overloaded.formatted]}) + _COMPLETE
        except Stopping:
            # Without `complete`, the client knows that it should subscribe again.
            last = b""
        except Ended as ended:
            last = _next({"errors": [ended.formatted]}) + _COMPLETE
        except InvalidToken as error:
            last = _next(_failure(str(error), {"code": error.code})) + _COMPLETE
        except Exception as fault:  # noqa: BLE001 - any fault goes to the log, not to the client
            request_id = self._context.request_id
            logger().error("fault", request_id=request_id, exc_info=fault)
            last = _next(_failure(FAULTS["INTERNAL"], {"code": "INTERNAL", "requestId": request_id})) + _COMPLETE
        finally:
            gone.cancel()
        with contextlib.suppress(TimeoutError, OSError, ClientGone, TooSlow):
            async with asyncio.timeout(LAST_SECONDS):
                await self._start()
                await self._send({"type": "http.response.body", "body": last})

    def _responses(self, request: Request) -> AsyncGenerator[EncodedResponse, None]:
        self._resumable, self._wants_ids = self._session.resumable(request), request.wants_ids
        context = derived(self._context, live=self._resumable)
        return responses(self._session.state.executor, request, self._session, context, self._progress)

    async def _start(self) -> None:
        # The stream starts as soon as it is live, or with its first response, whichever comes first.
        async with self._starting:
            if self._has_begun:
                return
            headers = [*_HEADERS, (b"x-request-id", self._context.request_id.encode())]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._write(self._beginning() if self._lasts else _COMMENT)
            self._has_begun = True

    def _beginning(self) -> bytes:
        """Returns when browsers come back after a break, and the id of the beginning if the client has none.

        Browsers that were cut off together come at different times. They remember an id that has no event.
        """
        retry = b"retry: %d\n\n" % random.randint(*_RETRY_MS)  # noqa: S311 - spreads clients, guards nothing
        if self._resumable is None or self._resumable.start is None:
            return retry
        return b"id: %b\n%b" % (self._resumable.ids.id_of(self._resumable.start).encode(), retry)

    def _with_id(self, response: EncodedResponse) -> bytes:
        """Returns the event of a response with its id. The responses to queries and mutations have none."""
        found = None if self._resumable is None else self._resumable.id_of(response)
        if found is None:
            return response.event
        event = event_of(response.with_extension("eventId", found)) if self._wants_ids else response.event
        return b"id: %b\n%b" % (found.encode(), event)

    async def _relay(self, answers: AsyncGenerator[EncodedResponse, None], gone: asyncio.Task[None]) -> None:
        """Sends the responses. Raises ClientGone, and InvalidToken if the token expires."""
        sending = asyncio.create_task(self._send_all(answers))
        try:
            await self._watch(sending, gone)
        finally:
            if not self._progress.is_write:
                await end(sending)
            await asyncio.wait({sending})
            if not sending.cancelled():
                # Retrieves an error that nobody waits for, so that asyncio does not log it.
                sending.exception()
        sending.result()

    async def _send_all(self, answers: AsyncGenerator[EncodedResponse, None]) -> None:
        async for response in answers:
            if not self._has_begun:
                await self._start()
            await self._write(self._with_id(response))

    async def _watch(self, sending: asyncio.Task[None], gone: asyncio.Task[None]) -> None:
        """Waits until all responses are sent. Starts the stream when it is live, and sends comments while it is idle.

        Raises:   ClientGone, and InvalidToken if the token expires.
        """
        live = asyncio.create_task(self._progress.live.wait())
        ends: set[asyncio.Task[Any]] = {sending, gone, live}
        try:
            while not sending.done():
                # A mutation that has started finishes and is answered, even if its token expires.
                left = math.inf if self._progress.is_write else self._session.seconds_left
                idle_left = self._idle_since + self._settings.keep_alive_seconds - time.monotonic()
                seconds = max(0.0, min(idle_left, left))
                done, _ = await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if gone in done:
                    raise ClientGone
                if left <= 0:
                    raise ExpiredToken
                if live in done:
                    ends.discard(live)
                    await self._start()
                elif not done:
                    await self._comment()
        finally:
            live.cancel()

    async def _comment(self) -> None:
        """Sends a comment if nothing was sent for a while."""
        if time.monotonic() < self._idle_since + self._settings.keep_alive_seconds:
            return
        self._idle_since = time.monotonic()
        if self._has_begun and not self._is_sending:
            await self._write(_COMMENT)

    async def _write(self, part: bytes) -> None:
        """Sends a part of the body. Raises ClientGone, and TooSlow if the client does not receive it in time."""
        self._is_sending = True
        try:
            message = {"type": "http.response.body", "body": part, "more_body": True}
            await within(self._settings.send_seconds, self._send(message))
        except TimeoutError:
            self._session.state.live.counts.unread += 1
            raise TooSlow from None
        except OSError:
            raise ClientGone from None
        finally:
            self._is_sending = False
        self._idle_since = time.monotonic()

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _next(payload: dict[str, Any]) -> bytes:
    return EncodedResponse.of(Response(payload)).event


def _failure(message: str, extensions: Mapping[str, str]) -> dict[str, Any]:
    return {"errors": [{"message": message, "extensions": extensions}]}
