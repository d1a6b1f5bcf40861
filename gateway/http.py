"""GraphQL over HTTP: POST and GET, both media types, a JSON body for every error.

Source: the GraphQL-over-HTTP specification, draft of 2025.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

import orjson
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from schema.context import Context

from .auth import InvalidToken, KeysUnavailable
from .encoding import encode
from .execution import FAULTS, MutationRefused, Response
from .logs import logger
from .state import State

RESPONSE_TYPE = "application/graphql-response+json"
JSON_TYPE = "application/json"
PLAN_HEADER = "x-portico-plan"
_NAMED = 3
_WATCH_AFTER_SECONDS = 0.1
_SERVER_CODES = {"INTERNAL": 500, "UNAVAILABLE": 503, "TIMEOUT": 504}


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Refused(Exception):
    """The request is refused before it is run."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})


@dataclass(frozen=True, slots=True)
class Request:
    """A GraphQL request, checked."""

    query: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    operation_name: str | None = None
    wants_plan: bool = False


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
            payload = response.payload
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
        )


def _status(response: Response) -> int:
    if response.has_begun:
        return 200
    return next((status for code, status in _SERVER_CODES.items() if code in response.codes), 400)


def negotiate(accept: str) -> str:
    """The media type of the answer, by an `Accept` header. Raises Refused (406) where none of ours will do."""
    if not accept or accept == JSON_TYPE:
        return JSON_TYPE
    if accept == RESPONSE_TYPE:
        return RESPONSE_TYPE
    ranges = [_media_range(part) for part in accept.split(",")]
    response, plain = _preference(ranges, RESPONSE_TYPE), _preference(ranges, JSON_TYPE)
    if not max(response, plain)[0]:
        raise Refused(406, "NOT_ACCEPTABLE", f"Answers are {RESPONSE_TYPE} or {JSON_TYPE}.")
    is_tie = response == plain
    # Who accepts anything may be older than the specification, and know plain JSON alone.
    return RESPONSE_TYPE if response > plain or (is_tie and response[1] == _NAMED) else JSON_TYPE


def _media_range(part: str) -> tuple[str, float]:
    """A media range with its weight; a weight that cannot be read counts as none."""
    media_range, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                weight = 0.0
            return media_range, weight if 0 <= weight <= 1 else 0.0
    return media_range, 1.0


def _preference(ranges: Sequence[tuple[str, float]], offered: str) -> tuple[float, int]:
    """The weight of the most specific range that the media type falls under, and how specific that is.

    Source:   RFC 9110, section 12.5.1.
    """
    specificity = {"*/*": 1, "application/*": 2, offered: _NAMED}
    found = [(specificity[name], weight) for name, weight in ranges if name in specificity]
    level, weight = max(found, default=(0, 0.0))
    return weight, level


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """The whole body. Raises Refused (413) as soon as it is known to be larger than the limit."""
    # The connection is closed, for the rest of the body is not going to be read.
    too_large = Refused(413, "BODY_TOO_LARGE", f"The body has more than {limit:,} bytes.", {"Connection": "close"})
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared[:20]) > limit:
        raise too_large
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "BAD_REQUEST", "The body ended early.")
        body = message.get("body", b"")
        size += len(body)
        if size > limit:
            raise too_large
        parts.append(body)
        if not message.get("more_body", False):
            return b"".join(parts) if len(parts) > 1 else parts[0]


def parse_body(headers: Headers, body: bytes) -> Request:
    """The request in a body. Raises Refused."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "UNSUPPORTED_ENCODING", "Bodies must not be compressed.", {"Accept-Encoding": "identity"})
    media_type, *parameters = (part.strip().lower() for part in headers.get("content-type", "").split(";"))
    charsets = {part.removeprefix("charset=").strip('"') for part in parameters if part.startswith("charset=")}
    if media_type != JSON_TYPE or not charsets <= {"utf-8", "utf8"}:
        raise Refused(415, "UNSUPPORTED_MEDIA_TYPE", "The body must be application/json in UTF-8.")
    try:
        given = orjson.loads(body)
    except (orjson.JSONDecodeError, RecursionError):
        raise Refused(400, "BAD_REQUEST", "The body is not JSON in UTF-8.") from None
    if not isinstance(given, dict):
        raise Refused(400, "BAD_REQUEST", "The body must be a JSON object with a `query`.")
    return _request(given)


def parse_query(query_string: bytes) -> Request:
    """The request in the parameters of a URL. Raises Refused."""
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20)
        given: dict[str, Any] = dict(pairs)
        for name in ("variables", "extensions"):
            if given.get(name):
                given[name] = orjson.loads(given[name])
            else:
                given.pop(name, None)
    except (ValueError, RecursionError):
        raise Refused(400, "BAD_REQUEST", "The parameters cannot be read.") from None
    if given.get("operationName") == "":
        del given["operationName"]
    return _request(given)


def _request(given: Mapping[str, Any]) -> Request:
    query = given.get("query")
    variables, name, extensions = (given.get(key) for key in ("variables", "operationName", "extensions"))
    if not isinstance(query, str) or not query.strip():
        raise Refused(400, "BAD_REQUEST", "`query` must be the text of an operation.")
    if variables is not None and not isinstance(variables, dict):
        raise Refused(400, "BAD_REQUEST", "`variables` must be an object.")
    if name is not None and not isinstance(name, str):
        raise Refused(400, "BAD_REQUEST", "`operationName` must be a text.")
    if extensions is not None and not isinstance(extensions, dict):
        raise Refused(400, "BAD_REQUEST", "`extensions` must be an object.")
    return Request(query, variables or {}, name, wants_plan=(extensions or {}).get("plan") is True)


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
