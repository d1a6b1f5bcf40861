"""Reads a GraphQL request: the media type of the response from the headers, and the operation from the body or URL.

Source: the GraphQL-over-HTTP specification, draft of 2025.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.datastructures import Headers
from starlette.types import Receive

from portico.gateway.auth import InvalidToken
from portico.gateway.bodies import MOST_OF_SUBSCRIPTION, SHORT, Body
from portico.gateway.given_json import UnreadableJson, parse_json, with_whole_numbers
from portico.gateway.operations.admission import CODE, RETRY_SECONDS
from portico.gateway.operations.documents import InvalidOperation
from portico.gateway.operations.plans.on_error import DEFAULT, ON_ERROR, OnError
from portico.gateway.operations.references import Reference

from .parameters import parameters_of
from .sending import within

RESPONSE_TYPE = "application/graphql-response+json"
JSON_TYPE = "application/json"
EVENT_TYPE = "text/event-stream"
_NAMED = 3
_TRACE = ("traceparent", "tracestate")
NO_ROOM = "The gateway is reading too many long bodies. Nothing was executed. Retry soon, or send a shorter one."
LONG_SUBSCRIPTION = f"A subscription or live query can have {MOST_OF_SUBSCRIPTION:,} bytes at most, with its variables."


class Refused(Exception):
    """The request is refused before its operation runs."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """`details` are shown beside the code, in the extensions of the error."""
        super().__init__(message)
        self.details = details or {}
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})


def unauthenticated(error: InvalidToken) -> Refused:
    """Returns the refusal of a request whose token is not valid."""
    return Refused(401, error.code, str(error), {"WWW-Authenticate": error.challenge})


_NOTHING: Mapping[str, Any] = {}


class Request(NamedTuple):
    """A GraphQL request, checked."""

    # Empty if the request refers to a text that is not known yet.
    query: str
    variables: Mapping[str, Any] = _NOTHING
    operation_name: str | None = None
    wants_plan: bool = False
    # Whether the newer answers of a live query come as differences.
    wants_patches: bool = False
    # The headers of W3C Trace Context, in `extensions`: on a WebSocket, each operation can belong to another trace.
    trace: Mapping[str, str] = _NOTHING
    reference: Reference | None = None
    # Why the text that the request refers to cannot run.
    refusal: InvalidOperation | None = None
    on_error: OnError = DEFAULT
    # Whether each event and each live answer has its id in its `extensions`.
    wants_ids: bool = False
    # The id of the last event that the client has got before its subscription was cut off.
    last_event_id: str | None = None
    # What is in the URL in place of a token.
    ticket: str | None = None


class Accepted(NamedTuple):
    """What a client accepts: the media type of a single response, if any, and whether it accepts a stream of events."""

    media_type: str | None
    events: bool = False


_ACCEPTED = {"": Accepted(JSON_TYPE), JSON_TYPE: Accepted(JSON_TYPE), RESPONSE_TYPE: Accepted(RESPONSE_TYPE)}


def negotiate(accept: str) -> Accepted:
    """Returns what an `Accept` header accepts. Raises Refused (406) if the gateway has no such media type."""
    known = _ACCEPTED.get(accept)
    if known is not None:
        return known
    ranges = [_media_range(part) for part in accept.split(",")]
    response, plain = _preference(ranges, RESPONSE_TYPE), _preference(ranges, JSON_TYPE)
    weights = dict(ranges)
    # `*/*` does not ask for a stream.
    events = weights.get(EVENT_TYPE, weights.get("text/*", 0.0)) > 0
    if not max(response, plain)[0]:
        if events:
            return Accepted(None, events=True)
        raise Refused(406, "NOT_ACCEPTABLE", f"`Accept` must allow {RESPONSE_TYPE}, {JSON_TYPE} or {EVENT_TYPE}.")
    is_tie = response == plain
    # A client with `*/*` may be older than the specification and know plain JSON only.
    prefers_response = response > plain or (is_tie and response[1] == _NAMED)
    return Accepted(RESPONSE_TYPE if prefers_response else JSON_TYPE, events)


def _media_range(part: str) -> tuple[str, float]:
    """Returns a media range with its weight; a weight that cannot be read counts as none."""
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
    """Returns the weight of the most specific range that matches the media type, and how specific the range is.

    Source:   RFC 9110, section 12.5.1.
    """
    specificity = {"*/*": 1, "application/*": 2, offered: _NAMED}
    found = [(specificity[name], weight) for name, weight in ranges if name in specificity]
    level, weight = max(found, default=(0, 0.0))
    return weight, level


async def read_body(receive: Receive, headers: Headers, limit: int, seconds: float, room: Body) -> bytes:
    """Returns the whole body, which then has `room` to be parsed.

    Raises:   Refused (413) as soon as it exceeds the limit, (408) if it takes too long, and (503) if other long bodies
              take up the room for as long.
    """
    try:
        return await within(seconds, _whole_body(receive, headers, limit, room))
    except TimeoutError:
        if room.is_waiting:
            raise no_room() from None
        raise Refused(408, "TIMEOUT", "The client did not send the body in time.", {"Connection": "close"}) from None


async def _whole_body(receive: Receive, headers: Headers, limit: int, room: Body) -> bytes:
    declared = headers.get("content-length", "")
    length = int(declared[:20]) if declared.isdigit() else limit
    if length > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "BAD_REQUEST", "The client disconnected before the end of the body.")
        body = message.get("body", b"")
        size += len(body)
        if size > limit:
            raise _too_large(limit)
        parts.append(body)
        if not message.get("more_body", False):
            await room.parse(size)
            return b"".join(parts) if len(parts) > 1 else parts[0]
        if size > SHORT:
            await room.arrive(length)


def no_room() -> Refused:
    """Returns the refusal of a body that other long bodies leave no room for."""
    return Refused(503, CODE, NO_ROOM, {"Retry-After": str(RETRY_SECONDS), "Connection": "close"})


def _too_large(limit: int) -> Refused:
    # The gateway does not read the rest of the body, so it closes the connection.
    return Refused(413, "BODY_TOO_LARGE", f"The body has more than {limit:,} bytes.", {"Connection": "close"})


def parse_body(headers: Headers, body: bytes) -> Request:
    """Returns the request in a body. Raises Refused."""
    require_uncompressed(headers)
    content_type = headers.get("content-type", "")
    if content_type != JSON_TYPE and not _is_json(content_type):
        raise Refused(415, "UNSUPPORTED_MEDIA_TYPE", "The body must be `application/json` in UTF-8.")
    try:
        given = parse_json(body)
        if isinstance(given, dict):
            return parse_request(with_whole_numbers(given, body, given.get("variables")))
    except UnreadableJson as error:
        raise Refused(400, "BAD_REQUEST", f"The body {error}.") from None
    raise Refused(400, "BAD_REQUEST", "The body must be a JSON object with a `query` or a `documentId`.")


def _is_json(content_type: str) -> bool:
    media_type, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charsets = {part.removeprefix("charset=").strip('"') for part in parameters if part.startswith("charset=")}
    return media_type == JSON_TYPE and charsets <= {"utf-8", "utf8"}


def require_uncompressed(headers: Headers) -> None:
    """Raises Refused (415) for a compressed body."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "UNSUPPORTED_ENCODING", "Bodies must not be compressed.", {"Accept-Encoding": "identity"})


def parse_query(query_string: bytes) -> Request:
    """Returns the request in the parameters of a URL. Raises Refused."""
    try:
        given: dict[str, Any] = {**parameters_of(query_string)}
        for name in ("variables", "extensions"):
            if given.get(name):
                parsed = parse_json(given[name])
                given[name] = with_whole_numbers(parsed, given[name], parsed)
            else:
                given.pop(name, None)
    except ValueError:
        raise Refused(
            400, "BAD_REQUEST", "The parameters of the URL must be URL-encoded; `variables` and `extensions` as JSON."
        ) from None
    if given.get("operationName") == "":
        del given["operationName"]
    request = parse_request(given)
    return request._replace(ticket=given["ticket"]) if given.get("ticket") else request


def parse_request(given: Mapping[str, Any]) -> Request:
    """Returns the request in the object that a client sent. Raises Refused."""
    query = given.get("query")
    variables, name, extensions = given.get("variables"), given.get("operationName"), given.get("extensions")
    reference = _reference(given) if extensions or "documentId" in given else None
    if not isinstance(query, str) or not query.strip():
        if reference is None or query:
            raise Refused(400, "BAD_REQUEST", "`query` must be a string that contains a GraphQL operation.")
        query = ""
    if variables is not None and not isinstance(variables, dict):
        raise Refused(400, "BAD_REQUEST", "`variables` must be an object.")
    if name is not None and not isinstance(name, str):
        raise Refused(400, "BAD_REQUEST", "`operationName` must be a string.")
    if extensions is not None and not isinstance(extensions, dict):
        raise Refused(400, "BAD_REQUEST", "`extensions` must be an object.")
    on_error = DEFAULT if given.get("onError") is None else _on_error(given["onError"])
    if not extensions:
        return Request(query, variables or {}, name, reference=reference, on_error=on_error)
    trace = {key: value for key in _TRACE if isinstance(value := extensions.get(key), str)}
    wants_plan = extensions.get("plan") is True
    last_id = extensions.get("lastEventId")
    if last_id is not None and not isinstance(last_id, str):
        raise Refused(400, "BAD_REQUEST", "`extensions.lastEventId` must be a string.")
    options: dict[str, Any] = {"wants_plan": wants_plan, "trace": trace, "reference": reference, "on_error": on_error}
    options |= {"wants_patches": extensions.get("jsonPatch") is True, "wants_ids": extensions.get("eventIds") is True}
    return Request(query, variables or {}, name, last_event_id=last_id, **options)


def _on_error(given: Any) -> OnError:
    for behavior in ON_ERROR:
        if given == behavior:
            return behavior
    raise Refused(400, "BAD_REQUEST", f"`onError` must be {', '.join(ON_ERROR[:-1])} or {ON_ERROR[-1]}.")


def _reference(given: Mapping[str, Any]) -> Reference | None:
    """Returns what the request has in place of a text: the id of a document, or Apollo's `persistedQuery`."""
    key = given.get("documentId")
    if key is not None:
        if not isinstance(key, str) or not key:
            raise Refused(400, "BAD_REQUEST", "`documentId` must be a string that is not empty.")
        if given.get("query"):
            raise Refused(400, "BAD_REQUEST", "Send `documentId` or `query`, not both.")
        return Reference(key)
    extensions = given.get("extensions")
    persisted = extensions.get("persistedQuery") if isinstance(extensions, dict) else None
    if persisted is None:
        return None
    key = persisted.get("sha256Hash") if isinstance(persisted, dict) else None
    if not isinstance(key, str) or not key or persisted.get("version") != 1:
        raise Refused(400, "BAD_REQUEST", "`extensions.persistedQuery` must have `version` 1 and a `sha256Hash`.")
    return Reference(key, is_hash=True)
