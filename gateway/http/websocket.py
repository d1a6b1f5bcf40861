"""GraphQL over WebSocket: the protocol `graphql-transport-ws`, for operations of every kind.

Source: the protocol of graphql-ws, version 5 and later.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import orjson
from graphql import OperationType
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from portico.gateway.auth import InvalidToken, KeysUnavailable
from portico.gateway.bodies import MOST_OF_SUBSCRIPTION, Body
from portico.gateway.ended import Stopping, TooSlow
from portico.gateway.logs import logger
from portico.gateway.operations.admission import Overloaded
from portico.gateway.operations.encoding import EncodedResponse
from portico.gateway.operations.execution import Executor, Progress
from portico.gateway.operations.json_text import encode
from portico.gateway.operations.responses import FAULTS
from portico.gateway.outages import EVENTS, fault_code, log_fault
from portico.gateway.resuming import Resumable
from portico.gateway.state import State
from portico.resolvers.tasks import end
from portico.schema.context import Context, derived

from .cors import log_refused_page
from .origins import may_connect
from .requests import LONG_SUBSCRIPTION, NO_ROOM, Refused, Request, parse_request
from .resolving import resolved_for
from .sending import ONE_MORE_TIMER_SECONDS, within
from .socket_messages import (
    FAULT,
    FORBIDDEN,
    ID_TAKEN,
    INIT_TIMEOUT,
    INIT_TWICE,
    INVALID,
    NO_SUBPROTOCOL,
    RESTART,
    TOO_SLOW,
    TRY_LATER,
    UNAUTHORIZED,
    Close,
    authorization_of,
    headers_of,
    id_of,
    message_of,
    payload_of,
)
from .sockets import flow_of
from .sse import LAST_SECONDS
from .streaming import Session, address_of, responses

PROTOCOL = "graphql-transport-ws"
# How long a subscription that cannot start, e.g. because the database is down, delays reading the next message.
_LIVE_SECONDS = 5.0

# The most queries of a connection that run, or whose answers wait for the client to read.
_QUERIES = 4
_OTHERS = {OperationType.MUTATION, OperationType.SUBSCRIPTION}


class Unsent(Exception):
    """The message was not sent: the client has disconnected, or does not read."""


class SocketEndpoint:
    """The ASGI application of `/graphql` for WebSockets."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        headers = Headers(scope=scope)
        if not may_connect(headers, self._state.settings):
            log_refused_page(self._state.refusals, headers, "WebSocket: PORTICO_CORS_ORIGINS does not have the origin")
            # Closing a socket before accepting it refuses it with HTTP status 403.
            await send({"type": "websocket.close", "code": FORBIDDEN})
            return
        is_known = PROTOCOL in scope["subprotocols"]
        await send({"type": "websocket.accept", "subprotocol": PROTOCOL if is_known else None})
        if not is_known:
            await send({"type": "websocket.close", "code": NO_SUBPROTOCOL, "reason": "Subprotocol not acceptable"})
            return
        counts = self._state.live.counts
        counts.sockets += 1
        try:
            await Connection(self._state, scope, receive, send).run()
        finally:
            counts.sockets -= 1


class Connection:
    """One socket, from its acceptance until it closes."""

    def __init__(self, state: State, scope: Scope, receive: Receive, send: Send) -> None:
        self.state = state
        # By id, without operations that the client has completed, even if such a mutation still runs.
        self.operations: dict[str, Operation] = {}
        self._headers = Headers(scope=scope)
        self._address = address_of(scope)
        self._receive = receive
        self._send = send
        self._flow = flow_of(scope)
        # None until the connection is acknowledged.
        self._session: Session | None = None
        self._has_begun = False
        # Whether the client has asked for the ids of events.
        self.has_ids = False
        self.queries = asyncio.Semaphore(_QUERIES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Future[Close] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serves the socket until the client disconnects or the gateway closes it. Mutations in flight still finish."""
        stopping = asyncio.create_task(self._until_stopping())
        reading = asyncio.create_task(self._read())
        try:
            ends: set[asyncio.Future[Any]] = {reading, self._closing}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopping, reading):
                task.cancel()
            for operation in tuple(self.operations.values()):
                operation.end()
        if self._closing.done():
            await self._close(self._closing.result())
        if self._tasks:
            await asyncio.wait(self._tasks)

    def close(self, why: Close) -> None:
        """Closes the socket with this code and reason. Later calls do nothing."""
        if not self._closing.done():
            self._closing.set_result(why)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Sends one message. Closes the connection if the client does not receive it in time. Raises Unsent."""
        await self.send_text(encode(message))

    async def send_text(self, *parts: bytes, is_bounded: bool = False) -> None:
        """Sends one encoded message in parts, as `send` does. Raises Unsent.

        With `is_bounded`, it waits until the client has read enough of what was sent before. The answers to the
        client's own messages do not wait: while they waited, no pong could arrive.
        """
        if self._flow.send_now(b"".join(parts)):
            return
        if is_bounded:
            # The keep-alive closes the connection if the client reads nothing.
            await self._flow.wait_for_room(sum(map(len, parts)))
        text = b"".join(parts)
        if self._flow.send_now(text):
            return
        try:
            # The server writes a message in one step, so several operations may wait here until the client reads.
            message = {"type": "websocket.send", "text": text.decode()}
            await within(self.state.settings.send_seconds, self._send(message))
        except TimeoutError:
            if not self._closing.done():
                self.state.live.counts.unread += 1
            self.close(Close(TOO_SLOW, "Too slow"))
            raise Unsent from None
        except OSError:
            raise Unsent from None

    async def _close(self, why: Close) -> None:
        # If the client does not read, it gets no reason.
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(LAST_SECONDS):
                await self._send({"type": "websocket.close", "code": why.code, "reason": why.reason})

    async def _until_stopping(self) -> None:
        await self.state.live.stopping.wait()
        self.close(Close(RESTART, "The gateway is stopping"))

    async def _read(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.state.settings.init_seconds, self._end_after_reading)
        try:
            while (event := await self._receive())["type"] != "websocket.disconnect":
                await self._handle(event)
        except Close as why:
            self.close(why)
        except Exception as fault:  # noqa: BLE001 - any fault goes to the log, not to the client
            logger().error("fault", exc_info=fault)
            self.close(Close(FAULT, "Internal server error"))
        finally:
            self._timer.cancel()

    def _end_after_reading(self) -> None:
        """Closes the connection, unless its first message has arrived: see `ClientTimeout`."""
        overdue = Close(INIT_TIMEOUT, "Connection initialisation timeout")
        self._timer = asyncio.get_running_loop().call_later(ONE_MORE_TIMER_SECONDS, self.close, overdue)

    async def _handle(self, event: Mapping[str, Any]) -> None:
        """Does what one message asks for. Raises Close."""
        text = event.get("text")
        with self._flow.take_arrived() or Body(self.state.bodies) as room:
            if text is not None:
                size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
                try:
                    await within(self.state.settings.body_seconds, room.parse(size))
                except TimeoutError:
                    raise Close(TRY_LATER, NO_ROOM) from None
            await self._obey(message_of(text, self.state.settings.max_body_bytes), room)

    async def _obey(self, message: Mapping[str, Any], room: Body) -> None:
        match message.get("type"):
            case "connection_init":
                await self._init(payload_of(message))
            case "subscribe":
                await self._subscribe(message, room)
            case "complete":
                operation = self.operations.pop(id_of(message), None)
                if operation is not None:
                    operation.end()
            case "ping":
                payload = payload_of(message)
                await self._answer({"type": "pong"} if payload is None else {"type": "pong", "payload": payload})
            case "pong":
                payload_of(message)
            case _:
                raise Close(INVALID, "Invalid message: unknown `type`")

    async def _init(self, payload: Mapping[str, Any] | None) -> None:
        if self._has_begun:
            raise Close(INIT_TWICE, "Too many initialisation requests")
        self._has_begun = True
        self._timer.cancel()
        # An object of its own identifies this connection, which is one of the round with others.
        authorization = authorization_of(payload or {}, self._headers)
        headers = headers_of(payload or {}, self._headers)
        session = Session(self.state, authorization, headers, connection=object(), address=self._address)
        try:
            await session.check()
        except InvalidToken as error:
            raise Close(FORBIDDEN, str(error)) from None
        except KeysUnavailable:
            raise Close(TRY_LATER, "The keys that check tokens cannot be read. Try again later.") from None
        if session.seconds_left < math.inf:
            expired = Close(FORBIDDEN, "The token has expired.")
            self._timer = asyncio.get_running_loop().call_later(session.seconds_left, self.close, expired)
        self.has_ids = (payload or {}).get("eventIds") is True
        await self._answer(await self._acknowledgement(session))
        self._session = session

    async def _acknowledgement(self, session: Session) -> dict[str, Any]:
        """Returns the message, with the id of the moment if the client has asked for ids. It fits all subscriptions.

        Raises:   Close, if the moment cannot be read.
        """
        if not self.has_ids:
            return {"type": "connection_ack"}
        try:
            now = await self.state.live.replays.now()
        except Exception as error:
            if fault_code(error) in EVENTS:
                log_fault("fault", error)
                # Clients do not connect again after a fault.
                raise Close(TRY_LATER, FAULTS["UNAVAILABLE"]) from None
            raise
        return {"type": "connection_ack", "payload": {"eventId": session.resumable().ids.id_of(now)}}

    async def _subscribe(self, message: Mapping[str, Any], room: Body) -> None:
        if self._session is None:
            raise Close(UNAUTHORIZED, "Unauthorized")
        key = id_of(message)
        if key in self.operations:
            raise Close(ID_TAKEN, f"Subscriber for {key} already exists")
        payload = payload_of(message)
        try:
            request = parse_request(payload or {})
        except Refused as refused:
            raise Close(INVALID, f"Invalid message: {refused.message}") from None
        most = self.state.settings.max_operations
        if len(self._tasks) >= most:
            text = f"This connection has {most} operations in flight, the most allowed. Complete some of them first."
            await self._answer(_error(key, [{"message": text, "extensions": {"code": "TOO_MANY_OPERATIONS"}}]))
            return
        if request.reference is not None or not self.state.executor.references.accepts_all:
            # No other message is read meanwhile.
            request = await resolved_for(self._session, request, _LIVE_SECONDS)
        lasts = self.state.executor.lasts(request.query, request.operation_name, request.variables)
        if lasts and room.size > MOST_OF_SUBSCRIPTION:
            details = {"code": "BODY_TOO_LARGE"}
            await self._answer(_error(key, [{"message": LONG_SUBSCRIPTION, "extensions": details}]))
            return
        operation = self.operations[key] = Operation(self, self._session, key, request)
        held = room.handed_over()
        task = asyncio.create_task(operation.run())
        task.add_done_callback(lambda _: held.leave())
        operation.task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if lasts:
            # The next message may read the current state. It must wait until the subscription misses no more events.
            live = asyncio.create_task(operation.progress.live.wait())
            ends: set[asyncio.Future[Any]] = {task, live}
            try:
                await asyncio.wait(ends, timeout=_LIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                live.cancel()

    async def _answer(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(Unsent):
            await self.send(message)


class Operation:
    """One operation of a connection, from its `subscribe` to its `complete`."""

    def __init__(self, connection: Connection, session: Session, key: str, request: Request) -> None:
        self.task: asyncio.Task[None] | None = None
        self.progress = Progress()
        self._connection = connection
        self._session = session
        self._key = key
        self._request = request
        self._context: Context | None = None
        self._ending: asyncio.Task[None] | None = None
        self._is_wanted = True

    def end(self) -> None:
        """Ends the operation for its client. A mutation still runs to its end, and its response is dropped."""
        self._is_wanted = False
        if self.task is not None and not self.progress.is_write:
            self._ending = asyncio.create_task(end(self.task))

    async def run(self) -> None:
        try:
            await self._run()
        except Unsent:
            return
        except TooSlow:
            self._connection.close(Close(TOO_SLOW, "Too slow"))
        except Stopping:
            self._connection.close(Close(RESTART, "The gateway is stopping"))
        except InvalidToken as error:
            self._connection.close(Close(FORBIDDEN, str(error)))

    def _is_query(self, executor: Executor) -> bool:
        """Returns whether the operation has one answer, and changes nothing."""
        request = self._request
        kind = executor.kind_of(request.query, request.operation_name)
        return kind not in _OTHERS and not executor.lasts(request.query, request.operation_name, request.variables)

    async def _run(self) -> None:
        last: dict[str, Any] = {"id": self._key, "type": "complete"}
        # Many operations send the same response. Their messages differ in the id only.
        head = b'{"id":%b,"type":"next","payload":' % encode(self._key)
        try:
            self._context = await self._session.context()
            has_ids = self._connection.has_ids or self._request.wants_ids
            resumable = self._session.resumable(self._request) if has_ids else None
            context = self._context if resumable is None else derived(self._context, live=resumable)
            executor = self._session.state.executor
            counted = self._connection.queries if self._is_query(executor) else contextlib.nullcontext()
            answers = responses(executor, self._request, self._session, context, self.progress)
            async with counted, aclosing(answers):
                async for response in answers:
                    if response.is_last:
                        last = _error(self._key, orjson.loads(response.json)["errors"])
                        break
                    if self._is_wanted:
                        payload = response.json if resumable is None else _with_id(response, resumable)
                        await self._connection.send_text(head, payload, b"}", is_bounded=True)
        except (Unsent, TooSlow, Stopping, InvalidToken):
            raise
        except Overloaded as overloaded:
            last = _error(self._key, [overloaded.formatted])
        except Exception as fault:  # noqa: BLE001 - any fault goes to the log, not to the client
            request_id = "" if self._context is None else self._context.request_id
            logger().error("fault", request_id=request_id, exc_info=fault)
            extensions = {"code": "INTERNAL", "requestId": request_id}
            last = _error(self._key, [{"message": FAULTS["INTERNAL"], "extensions": extensions}])
        if self._is_wanted:
            # The client may reuse the id as soon as it has read this message.
            del self._connection.operations[self._key]
            await self._connection.send(last)


def _with_id(response: EncodedResponse, resumable: Resumable) -> bytes:
    """Returns the response to an event, or of a live query, with its id in its `extensions`. Others have none."""
    # Many operations send the same response. Their ids differ.
    found = resumable.id_of(response)
    return response.json if found is None else response.with_extension("eventId", found)


def _error(key: str, errors: Sequence[Any]) -> dict[str, Any]:
    return {"id": key, "type": "error", "payload": errors}
