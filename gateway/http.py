"""GraphQL over HTTP: POST and GET, both media types, a JSON body for every error.

Source: the GraphQL-over-HTTP specification, draft of 2025.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from schema.context import Context

from . import uploads
from .auth import InvalidToken, KeysUnavailable
from .encoding import encode
from .execution import FAULTS, MutationRefused, Response
from .logs import logger
from .requests import JSON_TYPE, Refused, negotiate, parse_body, parse_query, read_body
from .state import State

PLAN_HEADER = "x-portico-plan"
_CLOSING = {"Connection": "close"}
_WATCH_AFTER_SECONDS = 0.1
_SERVER_CODES = {"INTERNAL": 500, "UNAVAILABLE": 503, "TIMEOUT": 504}


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class _Watch:
    """Ends a query whose client goes away. A mutation goes on: its client may come again for the answer."""

    def __init__(self, receive: Receive, context: Context) -> None:
        self.is_gone = False
        self._receive = receive
        self._context = context
        self._watched = asyncio.current_task()
        self._task: asyncio.Task[None] | None = None
        # Most answers are sent before anybody could have gone.
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER_SECONDS, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._watched is not None and not self._context.is_write:
            self.is_gone = True
            self._watched.cancel()

    def end(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


class GraphQLEndpoint:
    """The ASGI application of `/graphql`."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        request_id = uuid4().hex
        media_type = JSON_TYPE
        added: Mapping[str, str] = {}
        try:
            media_type = negotiate(",".join(headers.getlist("accept")))
            response = await self._answer(scope, headers, receive, request_id)
            status = 200 if media_type == JSON_TYPE else _status(response)
            payload, added = response.payload, response.headers
            body = encode(payload)
        except ClientGone:
            return
        except Refused as refused:
            status, added = refused.status, refused.headers
            payload = _error(refused.message, {"code": refused.code})
            body = encode(payload)
        except Exception as fault:  # noqa: BLE001 - whatever it was, it belongs into the log, and not to the client
            logger().error("fault", request_id=request_id, exc_info=fault)
            status = 500
            payload = _error(FAULTS["INTERNAL"], {"code": "INTERNAL", "requestId": request_id})
            body = encode(payload)
        if "errors" in payload:
            added = {**added, "Cache-Control": "no-store"}
        await _send(send, status, media_type, body, request_id, added)

    async def _answer(self, scope: Scope, headers: Headers, receive: Receive, request_id: str) -> Response:
        method = scope["method"]
        if method not in {"POST", "GET", "HEAD"}:
            raise Refused(405, "METHOD_NOT_ALLOWED", "Use POST, or GET for queries.", {"Allow": "GET, HEAD, POST"})
        if method == "POST" and uploads.is_multipart(headers):
            return await self._answer_upload(headers, receive, request_id)
        if method == "POST":
            request = parse_body(headers, await read_body(receive, headers, self._state.settings.max_body_bytes))
        else:
            request = parse_query(scope["query_string"])
        context = await self._context(headers, request_id)
        watch = _Watch(receive, context)
        try:
            return await self._state.executor.execute(
                request.query,
                variables=request.variables,
                name=request.operation_name,
                context=context,
                may_write=method == "POST",
                wants_plan=request.wants_plan or headers.get(PLAN_HEADER) == "true",
            )
        except MutationRefused:
            raise Refused(405, "METHOD_NOT_ALLOWED", "A mutation must be sent by POST.", {"Allow": "POST"}) from None
        except asyncio.CancelledError:
            if watch.is_gone:
                raise ClientGone from None
            raise
        finally:
            watch.end()

    async def _answer_upload(self, headers: Headers, receive: Receive, request_id: str) -> Response:
        """Runs an operation whose files are still to come. Where its client goes away a read of a file fails."""
        request, files = await uploads.read_request(receive, headers, self._state.settings)
        try:
            response = await self._state.executor.execute(
                request.query,
                variables=request.variables,
                name=request.operation_name,
                context=await self._context(headers, request_id),
                wants_plan=request.wants_plan or headers.get(PLAN_HEADER) == "true",
                seconds=self._state.settings.upload_seconds,
            )
        except Refused as refused:
            if not await files.drain():
                refused.headers |= _CLOSING
            raise
        return response if await files.drain() else Response(response.payload, _CLOSING)

    async def _context(self, headers: Headers, request_id: str) -> Context:
        state = self._state
        try:
            caller = await state.authenticator.authenticate(headers.get("authorization"))
        except InvalidToken as error:
            challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            raise Refused(401, "UNAUTHENTICATED", str(error), challenge) from None
        except KeysUnavailable:
            raise Refused(503, "UNAVAILABLE", "The keys that check tokens cannot be read just now.") from None
        return Context(
            db=state.database,
            reading=state.reading if caller is None else state.database,
            caller=caller,
            now=state.clock.now(),
            request_id=request_id,
            selections={},
            payments=state.payments,
            cart_lasts=timedelta(seconds=state.settings.cart_seconds),
            uploads=state.uploads,
        )


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
        (b"content-type", f"{media_type}; charset=utf-8".encode()),
        (b"content-length", str(len(body)).encode()),
        (b"x-request-id", request_id.encode()),
        *((name.lower().encode(), value.encode()) for name, value in headers.items()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})
