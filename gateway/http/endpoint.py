"""GraphQL over HTTP: POST and GET, both media types, and a JSON body for every error.

Source: the GraphQL-over-HTTP specification, draft of 2025.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from graphql import OperationType
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from portico.gateway.auth import InvalidToken, KeysUnavailable
from portico.gateway.bodies import MOST_OF_SUBSCRIPTION, Body
from portico.gateway.cache.kept_answers import KeptAnswer, Query, Recording
from portico.gateway.cache.repeats import REPEATABLE
from portico.gateway.caller_rates import RateLimited
from portico.gateway.logs import logger
from portico.gateway.operations.admission import CODE, RETRY_SECONDS, Overloaded
from portico.gateway.operations.execution import MutationNotAllowed, Progress
from portico.gateway.operations.json_text import encode
from portico.gateway.operations.responses import FAULTS, Response
from portico.gateway.state import State
from portico.resolvers.lru import Lru
from portico.schema.context import Context
from portico.schema.watching import Asked, watching

from . import tickets, uploads
from .cors import log_refused_page
from .disconnects import Watch
from .freshness import fresh
from .headers import RequestHeaders
from .kept import KeptResponse, charging, kept_response, query_of, recording_context
from .request_ids import has_own_id, request_id_of
from .requests import (
    EVENT_TYPE,
    JSON_TYPE,
    LONG_SUBSCRIPTION,
    RESPONSE_TYPE,
    Accepted,
    Refused,
    Request,
    negotiate,
    parse_body,
    parse_query,
    read_body,
    unauthenticated,
)
from .resolving import resolved
from .sse import ClientGone, EventStream, send_answer
from .streaming import Session, address_of
from .validators import has_it, validators_of

PLAN_HEADER = "x-portico-plan"
_CLOSING = {"Connection": "close"}
_UNCHANGED = 304
# Characters of the URLs whose requests are kept.
_KEPT_URLS = 500_000
_CONTENT_TYPES = {name: f"{name}; charset=utf-8".encode() for name in (JSON_TYPE, RESPONSE_TYPE)}
_SERVER_CODES = {"INTERNAL": 500, "UNAVAILABLE": 503, "TIMEOUT": 504}


class GraphQLEndpoint:
    """The ASGI application of `/graphql`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._in_urls: Lru[bytes, Request] = Lru(most_size=_KEPT_URLS, size_of=lambda text, _: len(text))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = RequestHeaders(scope)
        request_id = request_id_of(headers)
        media_type = JSON_TYPE
        added: Mapping[str, str] = {}
        answer: KeptAnswer | None = None
        try:
            accepted = negotiate(headers.joined("accept"))
            media_type = accepted.media_type or JSON_TYPE
            response = await self._respond(scope, headers, receive, send, accepted, request_id)
            if response is None:
                return
            status = 200 if media_type == JSON_TYPE else _status(response)
            payload, added = response.payload, response.headers
            answer = response.answer if isinstance(response, KeptResponse) else None
            body = encode(payload) if answer is None else answer.body
            if isinstance(response, KeptResponse) and REPEATABLE in scope and not has_own_id(headers):
                scope[REPEATABLE] = response.repeatable(request_id)
        except ClientGone:
            return
        except Refused as refused:
            status, added = refused.status, refused.headers
            payload = _error(refused.message, {"code": refused.code, **refused.details})
            body = encode(payload)
        except Exception as fault:  # noqa: BLE001 - any fault goes to the log, not to the client
            logger().error("fault", request_id=request_id, exc_info=fault)
            status = 500
            payload = _error(FAULTS["INTERNAL"], {"code": "INTERNAL", "requestId": request_id})
            body = encode(payload)
        if "errors" in payload:
            added = {**added, "Cache-Control": "no-store"}
        elif scope["method"] != "POST":
            added = {**(validators := validators_of(body, media_type, headers, answer)), **added}
            if has_it(headers, validators):
                status, body = _UNCHANGED, b""
        await _send(send, status, media_type, body, request_id, added)

    async def _respond(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send, accepted: Accepted, request_id: str
    ) -> Response | None:
        """Returns the response; None if it was a stream, which is sent already."""
        is_post = scope["method"] == "POST"
        if is_post and uploads.is_multipart(headers):
            answer = await self._answer_upload(scope, headers, receive, request_id)
            if accepted.media_type is None:
                await send_answer(send, answer, request_id)
            return None if accepted.media_type is None else answer
        with Body(self._state.bodies) as room:
            request = await self._request(scope, headers, receive, room)
            ticket = None if request.ticket is None else tickets.opened(self._state, request.ticket)
            session = await self._session(
                scope, headers, headers.get("authorization") if ticket is None else ticket.authorization
            )
            context = self._state.context(session.caller, request_id, session.connection)
            try:
                if request.reference is not None or not self._state.executor.references.accepts_all:
                    request = await self._resolved(request, context, headers)
                if accepted.events and self._is_streamed(request, accepted, scope["method"], room.size):
                    last_id = headers.get("last-event-id")
                    if ticket is not None:
                        ticket.require_current(session.resumable(request).ids, last_id)
                    request = request._replace(last_event_id=last_id or request.last_event_id)
                    await EventStream(session, context, receive, send).run(request)
                    return None
                if ticket is not None:
                    raise Refused(400, "BAD_REQUEST", f"A ticket opens a stream: send `Accept: {EVENT_TYPE}`.")
                cache = self._state.cache
                query = None if cache is None else query_of(cache, self._state, request, session.caller)
                if cache is not None and query is not None:
                    kept = await cache.lookup(query, session.caller, self._state.clock.now)
                    if kept is not None:
                        response = self._kept(kept, request, session, headers)
                        age = 0 if is_post else self._state.executor.max_age(request.query, request.operation_name)
                        return fresh(response, age, session.caller, is_shared=kept.is_shared)
                return await self._answer(request, session, context, receive, headers, query=query, may_write=is_post)
            except Overloaded as overloaded:
                raise _refused(overloaded) from None

    async def _request(self, scope: Scope, headers: Headers, receive: Receive, room: Body) -> Request:
        method = scope["method"]
        if method not in {"POST", "GET", "HEAD"}:
            if "access-control-request-method" in headers:
                log_refused_page(self._state.refusals, headers, "PORTICO_CORS_ORIGINS is not set")
            raise Refused(405, "METHOD_NOT_ALLOWED", "Use POST, or GET for queries.", {"Allow": "GET, HEAD, POST"})
        if method == "POST":
            limits = self._state.settings
            body = await read_body(receive, headers, limits.max_body_bytes, limits.body_seconds, room)
            return parse_body(headers, body)
        return self._in_url(scope["query_string"])

    def _in_url(self, query_string: bytes) -> Request:
        """Returns the request in a URL. Clients that poll send the same again and again."""
        request = self._in_urls.get(query_string)
        if request is None:
            request = parse_query(query_string)
            if request.ticket is None:
                self._in_urls.put(query_string, request)
        return request

    async def _resolved(self, request: Request, context: Context, headers: Headers) -> Request:
        """Returns the request with the text that it refers to. Raises Overloaded."""
        executor, connection = self._state.executor, context.connection
        return await resolved(request, executor, headers, db=context.db, now=context.now, connection=connection)

    async def _session(self, scope: Scope, headers: Headers, authorization: str | None) -> Session:
        session = Session(
            self._state, authorization, headers, connection=scope.get("client"), address=address_of(scope)
        )
        try:
            await session.check()
        except InvalidToken as error:
            raise unauthenticated(error) from None
        except KeysUnavailable:
            raise Refused(503, "UNAVAILABLE", tickets.NO_KEYS) from None
        return session

    def _is_streamed(self, request: Request, accepted: Accepted, method: str, size: int) -> bool:
        """Returns whether to answer as a stream of events: a subscription, or a client that accepts nothing else.

        Raises Refused (413) for a subscription or a live query whose body is too long.
        """
        if method == "HEAD":
            return False
        kind = self._state.executor.kind_of(request.query, request.operation_name)
        if kind is OperationType.MUTATION and method != "POST":
            return False
        is_streamed = kind is OperationType.SUBSCRIPTION or accepted.media_type is None
        executor = self._state.executor
        if (
            is_streamed
            and size > MOST_OF_SUBSCRIPTION
            and executor.lasts(request.query, request.operation_name, request.variables)
        ):
            raise Refused(413, "BODY_TOO_LARGE", LONG_SUBSCRIPTION)
        return is_streamed

    async def _answer(
        self,
        request: Request,
        session: Session,
        context: Context,
        receive: Receive,
        headers: Headers,
        *,
        query: Query | None,
        may_write: bool,
    ) -> Response:
        progress = Progress()
        watch = Watch(receive, progress, self._state.executor.deadlines)
        try:
            cache = self._state.cache
            age = 0 if may_write else self._state.executor.max_age(request.query, request.operation_name)
            recording = None if query is None or cache is None else cache.recording(query, session.caller)
            if recording is None:
                context, asked = watching(context) if age else (context, Asked())
                response = await self._execute(
                    request, session, context, headers, may_write=may_write, progress=progress
                )
                return fresh(response, age, session.caller, is_shared=not asked.is_asked)
            try:
                context = recording_context(context, recording)
                response = await self._execute(request, session, context, headers, recording=recording)
                response = kept_response(recording, response)
                return fresh(response, age, session.caller, is_shared=not recording.asked.is_asked)
            finally:
                recording.end()
        except MutationNotAllowed:
            raise Refused(405, "METHOD_NOT_ALLOWED", "Send mutations with POST.", {"Allow": "POST"}) from None
        except asyncio.CancelledError:
            if watch.is_gone:
                raise ClientGone from None
            raise
        finally:
            watch.end()

    def _kept(self, answer: KeptAnswer, request: Request, session: Session, headers: Headers) -> Response:
        """Returns a kept answer, which costs its caller what the query costs. It needs no slot: nothing runs."""
        meter = session.meter()
        added: Mapping[str, str] = {}
        with self._state.telemetry.operation(headers, request.trace) as record:
            operation = self._state.executor.operations.get(request.query)
            record.identify(operation.definition(request.operation_name), operation.document)
            if meter is not None:
                try:
                    meter.charge(answer.cost)
                except RateLimited as limited:
                    raise _limited(limited) from None
                added = meter.headers()
            executor = self._state.executor
            can_repeat = meter is None and not self._state.telemetry.is_on
            can_repeat = can_repeat and executor.references.is_fixed(request.query, request.reference)
            good_until = session.good_until if can_repeat else 0.0
            response = KeptResponse({"data": None}, added, answer=answer, good_until=good_until)
            record.answered(response)
        return response

    async def _answer_upload(self, scope: Scope, headers: Headers, receive: Receive, request_id: str) -> Response:
        """Runs an operation while its files arrive. If the client disconnects, reading a file fails."""
        bound = self._state.executor.uploads
        try:
            await bound.enter(scope.get("client"), must_run=False)
            try:
                with Body(self._state.upload_bodies) as room:
                    return await self._run_upload(scope, headers, receive, request_id, room)
            finally:
                bound.leave()
        except Overloaded as overloaded:
            # The client is sending its files, which nobody reads.
            raise _refused(overloaded, _CLOSING) from None

    async def _run_upload(
        self, scope: Scope, headers: Headers, receive: Receive, request_id: str, room: Body
    ) -> Response:
        request, files = await uploads.read_request(receive, headers, self._state.settings, room)
        try:
            session = await self._session(scope, headers, headers.get("authorization"))
            context = self._state.context(session.caller, request_id, session.connection)
            seconds = self._state.settings.upload_seconds
            request = await self._resolved(request, context, headers)
            uploads.require_one_reader(self._state.executor.operations, request, files)
            outcome = await self._execute(request, session, context, headers, seconds=seconds)
        except Refused as refused:
            if not await files.drain():
                refused.headers |= _CLOSING
            raise
        return outcome if await files.drain() else Response(outcome.payload, {**outcome.headers, **_CLOSING})

    async def _execute(
        self,
        request: Request,
        session: Session,
        context: Context,
        headers: Headers,
        *,
        may_write: bool = True,
        seconds: int | None = None,
        progress: Progress | None = None,
        recording: Recording | None = None,
    ) -> Response:
        """Runs an operation. Raises Refused for a subscription, or if the caller has used up its allowance."""
        meter = session.meter()
        charge = None if meter is None else meter.charge
        try:
            with self._state.telemetry.operation(headers, request.trace) as record:
                outcome = await self._state.executor.execute(
                    request.query,
                    variables=request.variables,
                    name=request.operation_name,
                    context=record.recording(context),
                    may_write=may_write,
                    wants_plan=request.wants_plan or headers.get(PLAN_HEADER) == "true",
                    seconds=seconds,
                    charge=charge if recording is None else charging(recording, charge),
                    progress=progress,
                    refusal=request.refusal,
                    on_error=request.on_error,
                )
                if not isinstance(outcome, Response):
                    raise Refused(406, "NOT_ACCEPTABLE", f"A subscription needs `Accept: {EVENT_TYPE}` or a WebSocket.")
                record.answered(outcome)
        except RateLimited as limited:
            raise _limited(limited) from None
        return outcome if meter is None else Response(outcome.payload, {**outcome.headers, **meter.headers()})


def _refused(overloaded: Overloaded, headers: Mapping[str, str] | None = None) -> Refused:
    return Refused(503, CODE, str(overloaded), {"Retry-After": str(RETRY_SECONDS), **(headers or {})})


def _limited(limited: RateLimited) -> Refused:
    details = {"retryAfter": limited.seconds}
    return Refused(429, limited.code, str(limited), limited.headers, details)


def _status(response: Response) -> int:
    if response.has_begun:
        return 200
    return next((status for code, status in _SERVER_CODES.items() if code in response.codes), 400)


def _error(message: str, extensions: Mapping[str, str]) -> dict[str, Any]:
    return {"errors": [{"message": message, "extensions": extensions}]}


async def _send(
    send: Send, status: int, media_type: str, body: bytes, request_id: str, headers: Mapping[str, str]
) -> None:
    sent = [
        (b"content-type", _CONTENT_TYPES[media_type]),
        # A response without changes must not have another length than the answer.
        *(() if status == _UNCHANGED else ((b"content-length", str(len(body)).encode()),)),
        (b"x-request-id", request_id.encode()),
        *((name.lower().encode(), value.encode()) for name, value in headers.items()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})
