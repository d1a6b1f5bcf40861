"""Reads operations with files. The operation starts before its files arrive.

The parts are `operations`, `map`, and then the files. Each file is read when a mutation asks for it.

Source: the GraphQL multipart request specification, version 2.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from graphql import GraphQLError
from starlette.datastructures import Headers
from starlette.types import Receive

from portico.gateway.bodies import SHORT, Body
from portico.gateway.given_json import UnreadableJson, parse_exactly
from portico.gateway.operations.documents import InvalidOperation, Operations
from portico.gateway.operations.sizes import variables_used
from portico.gateway.settings import Settings
from portico.schema.files import Upload

from .multipart import BodyCut, BodyStalled, MultipartBody, MultipartError, Part
from .requests import JSON_TYPE, Refused, Request, no_room, parse_request, require_uncompressed
from .sending import ClientTimeout

MULTIPART_TYPE = "multipart/form-data"
# Browsers send a multipart form to another origin without a preflight request, but not with one of these headers.
PREFLIGHT_HEADERS = ("graphql-require-preflight", "apollo-require-preflight", "x-apollo-operation-name")
MAX_FILES = 10
_MAX_MAP_BYTES = 20_000
_MAX_STEPS = 20
_ONE_READER = (
    "The gateway reads a file as it arrives, once. Send it again, as another part, for each field that uses it."
)
# For the boundaries and the headers of the parts.
_OVERHEAD = 64 * 1024
# Clients read the response after they have sent their whole body. This bounds the wait for a rest that nobody needs.
_DRAIN_SECONDS = 10.0


class File(Upload):
    """One file of the body, as an argument of a mutation."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._name = name

    def __repr__(self) -> str:
        return "<a file>"

    def read(self) -> AsyncIterator[bytes]:
        return self._files.read(self._name)


class Files:
    """The files of one body. They can be read only in the order in which they arrive; a skipped file is lost."""

    def __init__(self, body: MultipartBody, names: set[str], max_bytes: int) -> None:
        # The variables that have a file.
        self.variables: list[str] = []
        self._body = body
        self._names = names
        self._max_bytes = max_bytes
        self._seen: set[str] = set()
        self._limit = body.received + _OVERHEAD + len(names) * max_bytes

    async def read(self, name: str) -> AsyncIterator[bytes]:
        """Yields the bytes of a file. Raises a GraphQLError with a code if the file is missing or incomplete."""
        try:
            await self._find(name)
            size = 0
            while piece := await self._body.read():
                yield piece
                size += len(piece)
                if size > self._max_bytes:
                    raise GraphQLError(
                        f"The file has more than {self._max_bytes:,} bytes.", extensions={"code": "UPLOAD_TOO_LARGE"}
                    )
        except MultipartError as error:
            raise GraphQLError(str(error), extensions={"code": "BAD_REQUEST"}) from None
        except BodyCut:
            raise _incomplete("The client disconnected before the end of the file.") from None
        except BodyStalled:
            raise _incomplete("The client stopped sending the file.") from None

    async def _find(self, name: str) -> None:
        if name in self._seen:
            raise GraphQLError(
                "The file has been read or skipped already. Send the files in the order in which the fields read them.",
                extensions={"code": "BAD_USER_INPUT"},
            )
        while (part := await self._body.next_part()) is not None:
            self._note(part)
            if part.name == name:
                return
        raise GraphQLError("`map` names a file that is not in the body.", extensions={"code": "UPLOAD_MISSING"})

    def _note(self, part: Part) -> None:
        if part.name not in self._names:
            raise MultipartError("The body has a part that `map` does not name.")
        if part.name in self._seen:
            raise MultipartError("The body has two parts with the same name.")
        self._seen.add(part.name)

    async def drain(self) -> bool:
        """Discards the rest of the body, within limits. Returns whether the body has ended."""
        with contextlib.suppress(MultipartError, BodyCut, BodyStalled, TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                return await self._body.drain(self._limit)
        return False


def _incomplete(message: str) -> GraphQLError:
    return GraphQLError(message, extensions={"code": "UPLOAD_INCOMPLETE"})


def is_multipart(headers: Headers) -> bool:
    content_type = headers.get("content-type", "")
    return content_type != JSON_TYPE and content_type.partition(";")[0].strip().lower() == MULTIPART_TYPE


async def read_request(receive: Receive, headers: Headers, settings: Settings, room: Body) -> tuple[Request, Files]:
    """Returns the request and its files, after the parts before the files have arrived. Raises Refused."""
    require_uncompressed(headers)
    if not any(headers.get(name) for name in PREFLIGHT_HEADERS):
        raise Refused(
            400, "PREFLIGHT_REQUIRED", "Send a multipart body with the header `GraphQL-Require-Preflight: true`."
        )
    declared = headers.get("content-length", "")
    most = settings.max_body_bytes + _MAX_MAP_BYTES + _OVERHEAD + MAX_FILES * settings.max_upload_bytes
    if declared.isdigit() and int(declared[:20]) > most:
        raise _too_large(most)
    try:
        body = MultipartBody(receive, headers["content-type"], settings.upload_stall_seconds)
        async with ClientTimeout(settings.body_seconds):
            operations = _object(await _field(body, "operations", settings.max_body_bytes, room), "operations")
            places = _places(_object(await _field(body, "map", _MAX_MAP_BYTES, room), "map"))
    except MultipartError as error:
        raise Refused(400, "BAD_REQUEST", str(error), {"Connection": "close"}) from None
    except BodyCut:
        raise Refused(
            400, "BAD_REQUEST", "The client disconnected before the end of the body.", {"Connection": "close"}
        ) from None
    except BodyStalled:
        raise Refused(408, "TIMEOUT", "The client stopped sending the body.", {"Connection": "close"}) from None
    except TimeoutError:
        if room.is_waiting:
            raise no_room() from None
        raise Refused(408, "TIMEOUT", "The client did not send the body in time.", {"Connection": "close"}) from None
    files = Files(body, set(places.values()), settings.max_upload_bytes)
    for path, name in places.items():
        _put(operations, path, File(files, name))
        files.variables.append(path.split(".")[1])
    return parse_request(operations), files


async def _field(body: MultipartBody, name: str, limit: int, room: Body) -> bytes:
    part = await body.next_part()
    if part is None or part.name != name:
        raise MultipartError("The parts must be `operations`, then `map`, then the files.")
    value = bytearray()
    while piece := await body.read():
        value += piece
        if len(value) > limit:
            raise _too_large(limit)
        if len(value) > SHORT:
            await room.arrive(limit)
    await room.parse(len(value))
    return bytes(value)


def _too_large(limit: int) -> Refused:
    return Refused(413, "BODY_TOO_LARGE", f"The body has more than {limit:,} bytes.", {"Connection": "close"})


def _object(text: bytes, name: str) -> dict[str, Any]:
    try:
        value = parse_exactly(text)
    except UnreadableJson as error:
        raise MultipartError(f"`{name}` {error}.") from None
    if not isinstance(value, dict):
        raise MultipartError(f"`{name}` must be a JSON object.")
    return value


def _places(given: Mapping[str, Any]) -> dict[str, str]:
    """Returns the name of the file for each path in the operations."""
    if len(given) > MAX_FILES:
        raise MultipartError(f"`map` can name at most {MAX_FILES} files; got {len(given)}.")
    places: dict[str, str] = {}
    for name, paths in given.items():
        if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
            raise MultipartError("`map` must hold a list of paths for each file.")
        if len(paths) > 1:
            raise MultipartError(f"`map` can have one path for each file. {_ONE_READER}")
        if paths[0] in places:
            raise MultipartError("`map` has the same path twice.")
        places[paths[0]] = name
    return places


def require_one_reader(operations: Operations, request: Request, files: Files) -> None:
    """Raises Refused if several fields of a valid operation use a variable that has a file."""
    try:
        operation = operations.get(request.query)
        used = variables_used(operation.document, operation.definition(request.operation_name), request.variables)
    except InvalidOperation:
        # The execution answers why.
        return
    for name in files.variables:
        fields = sorted(used.get(name, ()))
        if len(fields) > 1:
            text = f"The fields `{fields[0]}` and `{fields[1]}` both use the file of `${name}`. {_ONE_READER}"
            raise Refused(400, "BAD_USER_INPUT", text)


def _put(operations: dict[str, Any], path: str, file: File) -> None:
    """Puts the file at the path, which must lead to a null below `variables`."""
    *steps, last = path.split(".")
    holder: Any = operations
    for step in steps[:_MAX_STEPS]:
        holder = _at(holder, step)
    if steps[:1] == ["variables"] and len(steps) <= _MAX_STEPS:
        if isinstance(holder, dict) and last in holder and holder[last] is None:
            holder[last] = file
            return
        if isinstance(holder, list) and _is_index(holder, last) and holder[int(last)] is None:
            holder[int(last)] = file
            return
    raise Refused(
        400, "BAD_REQUEST", "Each path of `map` must lead to a null below `variables`.", {"Connection": "close"}
    )


def _at(holder: Any, step: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(step)
    return holder[int(step)] if isinstance(holder, list) and _is_index(holder, step) else None


def _is_index(items: list[Any], step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) <= 6 and int(step) < len(items)  # noqa: PLR2004
