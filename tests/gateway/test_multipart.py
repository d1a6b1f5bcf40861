"""Multipart bodies: the gateway reads them as they arrive, in pieces of any size, and refuses invalid ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from graphql import GraphQLError
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.types import Message

from portico.gateway.bodies import Bodies, Body
from portico.gateway.http.multipart import BodyStalled, MultipartBody, MultipartError, Part
from portico.gateway.http.requests import Refused
from portico.gateway.http.uploads import MAX_FILES, File, read_request
from portico.gateway.memory import Memory
from portico.gateway.settings import Settings
from tests.support.multipart import BOUNDARY, CONTENT_TYPE, PREFLIGHT, body_of, messages, part, pieces_of, upload_parts

SETTINGS = Settings(max_body_bytes=2_000, max_upload_bytes=1_000, upload_stall_seconds=5)
ROOM = Body(Bodies(Memory()))
QUERY = "mutation ($file: Upload!) { upload(file: $file) }"
# Characters that a parser may mistake for a boundary.
TRICKY = st.sampled_from([b"\r\n", b"--", b"\r\n--", f"\r\n--{BOUNDARY}"[:-1].encode(), b"-", b"\r", b"\n", b"a"])
CONTENTS = st.lists(st.one_of(TRICKY, st.binary(max_size=40)), max_size=12).map(b"".join)


def request_headers(**others: str) -> Headers:
    return Headers({"content-type": CONTENT_TYPE, **PREFLIGHT, **{k.replace("_", "-"): v for k, v in others.items()}})


def one(data: bytes) -> list[bytes]:
    """Returns the parts of an operation with one file."""
    return upload_parts(QUERY, {"file": None}, {"0": (["variables.file"], data)})


async def parts_in(body: MultipartBody) -> AsyncIterator[Part]:
    while (found := await body.next_part()) is not None:
        yield found


async def read_all(file: Any) -> bytes:
    return b"".join([piece async for piece in file.read()])


async def request_of(parts: list[bytes], settings: Settings = SETTINGS, size: int = 50) -> tuple[Any, Any]:
    return await read_request(messages(*pieces_of(body_of(parts), size)), request_headers(), settings, ROOM)


async def refusal(parts: list[bytes], headers: Headers | None = None) -> tuple[int, str, str]:
    with pytest.raises(Refused) as caught:
        await read_request(messages(*pieces_of(body_of(parts), 64)), headers or request_headers(), SETTINGS, ROOM)
    return caught.value.status, caught.value.code, caught.value.message


@given(contents=st.lists(CONTENTS, min_size=1, max_size=4), size=st.integers(1, 200))
async def test_every_byte_of_every_file_arrives_in_pieces_of_any_size(contents: list[bytes], size: int) -> None:
    files = {str(number): ([f"variables.files.{number}"], data) for number, data in enumerate(contents)}
    parts = upload_parts(QUERY, {"files": [None] * len(contents)}, files)

    request, rest = await request_of(parts, size=size)

    assert [await read_all(file) for file in request.variables["files"]] == contents
    assert await rest.drain()


async def test_the_operation_is_available_before_its_file_arrives() -> None:
    before, behind = body_of(one(b"x" * 500)).split(b"xx", 1)
    waiting: asyncio.Queue[Message] = asyncio.Queue()
    waiting.put_nowait({"type": "http.request", "body": before, "more_body": True})

    request, _ = await read_request(waiting.get, request_headers(), SETTINGS, ROOM)
    waiting.put_nowait({"type": "http.request", "body": b"xx" + behind, "more_body": False})

    assert request.query == QUERY
    assert await read_all(request.variables["file"]) == b"x" * 500


async def test_the_connection_is_read_only_as_far_as_needed() -> None:
    pieces = pieces_of(body_of(one(b"x" * 1_000)), 100)
    taken: list[bytes] = []
    source = messages(*pieces)

    async def receive() -> Message:
        message = await source()
        taken.append(message["body"])
        return message

    request, _ = await read_request(receive, request_headers(), SETTINGS, ROOM)
    reading = request.variables["file"].read()
    first = await anext(reading)
    count = len(taken)
    await asyncio.sleep(0)

    assert 0 < len(first) <= 100
    assert len(taken) == count < len(pieces) / 2
    await reading.aclose()


@pytest.mark.parametrize(
    ("content_type", "message"),
    [
        ("multipart/form-data", "The content type of the body must name a `boundary`."),
        ('multipart/form-data; boundary=""', "The content type of the body must name a `boundary`."),
        (f"multipart/form-data; boundary={'b' * 1_000}", "The `boundary` in the content type is too long."),
    ],
)
async def test_a_boundary_is_required(content_type: str, message: str) -> None:
    headers = Headers({"content-type": content_type, **PREFLIGHT})

    assert await refusal([], headers) == (400, "BAD_REQUEST", message)


@pytest.mark.parametrize("name", ["graphql-require-preflight", "apollo-require-preflight", "x-apollo-operation-name"])
async def test_a_form_without_a_preflight_is_refused(name: str) -> None:
    refused = await refusal(one(b"x"), Headers({"content-type": CONTENT_TYPE}))
    allowed = Headers({"content-type": CONTENT_TYPE, name: "true"})
    request, _ = await read_request(messages(body_of(one(b"x"))), allowed, SETTINGS, ROOM)

    assert refused[:2] == (400, "PREFLIGHT_REQUIRED")
    assert request.query == QUERY


ORDER = "The parts must be `operations`, then `map`, then the files."
PLACE = "Each path of `map` must lead to a null below `variables`."
OPERATION = part("operations", json.dumps({"query": QUERY, "variables": {"file": None, "list": [None, 1]}}).encode())
NO_NAME = "Each part needs a `Content-Disposition` header with `form-data` and a `name`."
LISTS = "`map` must hold a list of paths for each file."
TWICE = b'{"0": ["variables.file"], "1": ["variables.file"]}'
SHARED = b'{"0": ["variables.file", "variables.list.0"]}'
ONE_READER = (
    "The gateway reads a file as it arrives, once. Send it again, as another part, for each field that uses it."
)
OTHER_KIND = b'Content-Disposition: attachment; name="operations"\r\n\r\n{}'
WRONG: dict[str, tuple[list[bytes], str]] = {
    "nothing": ([], ORDER),
    "a file first": ([part("0", b"x", filename="x")], ORDER),
    "no map": ([OPERATION], ORDER),
    "a file before the map": ([OPERATION, part("0", b"x", filename="x")], ORDER),
    "the map first": ([part("map", b"{}"), OPERATION], ORDER),
    "operations that are no JSON": ([part("operations", b"{")], "`operations` is not JSON in UTF-8."),
    "a batch": ([part("operations", b"[]")], "`operations` must be a JSON object."),
    "a map that is no JSON": ([OPERATION, part("map", b"x")], "`map` is not JSON in UTF-8."),
    "a map that is a list": ([OPERATION, part("map", b"[]")], "`map` must be a JSON object."),
    "a map of texts": ([OPERATION, part("map", b'{"0": "variables.file"}')], LISTS),
    "a map of numbers": ([OPERATION, part("map", b'{"0": [1]}')], LISTS),
    "a map of nothing": ([OPERATION, part("map", b'{"0": []}')], LISTS),
    "a place that is not there": ([OPERATION, part("map", b'{"0": ["variables.other"]}')], PLACE),
    "a place that is not null": ([OPERATION, part("map", b'{"0": ["variables.list.1"]}')], PLACE),
    "a place behind the list": ([OPERATION, part("map", b'{"0": ["variables.list.2"]}')], PLACE),
    "a place before the list": ([OPERATION, part("map", b'{"0": ["variables.list.-2"]}')], PLACE),
    "a place that is no number": ([OPERATION, part("map", '{"0": ["variables.list.²"]}'.encode())], PLACE),
    "a place beside the variables": ([OPERATION, part("map", b'{"0": ["query"]}')], PLACE),
    "a place too deep": ([OPERATION, part("map", json.dumps({"0": ["variables" + ".a" * 99]}).encode())], PLACE),
    "an empty place": ([OPERATION, part("map", b'{"0": [""]}')], PLACE),
    "a place twice": ([OPERATION, part("map", TWICE)], "`map` has the same path twice."),
    "two places of a file": (
        [OPERATION, part("map", SHARED)], f"`map` can have one path for each file. {ONE_READER}"
    ),
    "too many files": (
        [OPERATION, part("map", json.dumps({str(n): [f"variables.{n}"] for n in range(MAX_FILES + 1)}).encode())],
        f"`map` can name at most {MAX_FILES} files; got {MAX_FILES + 1}.",
    ),
    "no query": (
        [part("operations", b"{}"), part("map", b"{}")],
        "`query` must be a string that contains a GraphQL operation.",
    ),
    "a part without a name": ([b"Content-Type: text/plain\r\n\r\nx"], NO_NAME),
    "a part of another kind": ([OTHER_KIND], NO_NAME),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
async def test_an_error_before_the_files_is_reported(name: str) -> None:
    parts, message = WRONG[name]

    assert await refusal(parts) == (400, "BAD_REQUEST", message)


@pytest.mark.parametrize("name", ["operations", "map"])
async def test_the_parts_before_the_files_have_the_body_limit(name: str) -> None:
    parts = {"operations": [part("operations", b" " * 2_001)], "map": [OPERATION, part("map", b" " * 20_001)]}

    assert (await refusal(parts[name]))[:2] == (413, "BODY_TOO_LARGE")


async def test_a_content_length_beyond_all_files_is_refused_at_once() -> None:
    headers = request_headers(content_length=str(10**9))

    async def receive() -> Message:
        raise AssertionError

    with pytest.raises(Refused) as caught:
        await read_request(receive, headers, SETTINGS, ROOM)

    assert (caught.value.status, caught.value.code) == (413, "BODY_TOO_LARGE")


@pytest.mark.parametrize("size", [1, 64, 10_000])
@pytest.mark.parametrize("kept", range(0, 400, 37))
async def test_a_body_that_ends_before_its_files_is_refused(kept: int, size: int) -> None:
    body = body_of(one(b"x"))
    end_of_map = body.rindex(b"\r\n--", 0, body.index(b'name="0"'))

    for is_cut in (True, False):
        receive = messages(*pieces_of(body[: min(kept, end_of_map)], size), is_cut=is_cut)
        with pytest.raises(Refused) as caught:
            await read_request(receive, request_headers(), SETTINGS, ROOM)
        assert caught.value.status == 400


# Files


async def failure(file: File) -> tuple[Any, str]:
    with pytest.raises(GraphQLError) as caught:
        await read_all(file)
    return (caught.value.extensions or {})["code"], caught.value.message


def two(first: bytes = b"first", second: bytes = b"second") -> list[bytes]:
    files = {"0": (["variables.file"], first), "1": (["variables.list.0"], second)}
    return upload_parts(QUERY, {"file": None, "list": [None]}, files)


def files_in(variables: Mapping[str, Any]) -> tuple[File, File]:
    return variables["file"], variables["list"][0]


async def test_an_unread_file_is_skipped() -> None:
    request, _ = await request_of(two())
    first, second = files_in(request.variables)

    assert await read_all(second) == b"second"
    assert (await failure(first))[0] == "BAD_USER_INPUT"


async def test_a_file_is_read_once() -> None:
    request, _ = await request_of(two())
    first, second = files_in(request.variables)

    assert await read_all(first) == b"first"
    assert await failure(first) == (
        "BAD_USER_INPUT",
        "The file has been read or skipped already. Send the files in the order in which the fields read them.",
    )
    assert await read_all(second) == b"second"


async def test_a_missing_file_is_reported() -> None:
    request, _ = await request_of(two()[:-1])
    first, second = files_in(request.variables)

    assert await failure(second) == ("UPLOAD_MISSING", "`map` names a file that is not in the body.")
    assert (await failure(first))[0] == "BAD_USER_INPUT"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (part("2", b"x", filename="x"), "The body has a part that `map` does not name."),
        (part("0", b"x", filename="x"), "The body has two parts with the same name."),
    ],
)
async def test_a_part_that_is_not_in_the_map_is_reported(more: bytes, message: str) -> None:
    request, _ = await request_of([*two()[:-1], more])
    _, second = files_in(request.variables)

    assert await failure(second) == ("BAD_REQUEST", message)


@pytest.mark.parametrize("kept", [1, 100, 499])
async def test_a_file_is_incomplete_if_its_client_disconnects(kept: int) -> None:
    body = body_of(one(b"y" * 500))
    cut = body[: body.index(b"yyy") + kept]

    gone, rest = await read_request(messages(*pieces_of(cut, 64), is_cut=True), request_headers(), SETTINGS, ROOM)
    ended, _ = await read_request(messages(*pieces_of(cut, 64)), request_headers(), SETTINGS, ROOM)

    assert await failure(gone.variables["file"]) == (
        "UPLOAD_INCOMPLETE",
        "The client disconnected before the end of the file.",
    )
    assert await failure(ended.variables["file"]) == ("BAD_REQUEST", "The body ends before its last boundary.")
    assert not await rest.drain()


async def test_a_stalled_file_times_out() -> None:
    body = body_of(one(b"y" * 500), is_ended=False)
    waiting: asyncio.Queue[Message] = asyncio.Queue()
    waiting.put_nowait({"type": "http.request", "body": body[:-100], "more_body": True})
    impatient = replace(SETTINGS, upload_stall_seconds=0.05)  # type: ignore[arg-type]

    request, _ = await read_request(waiting.get, request_headers(), impatient, ROOM)

    assert await failure(request.variables["file"]) == ("UPLOAD_INCOMPLETE", "The client stopped sending the file.")


async def test_a_stalled_request_times_out() -> None:
    body = MultipartBody(asyncio.Queue[Message]().get, CONTENT_TYPE, 0.01)

    with pytest.raises(BodyStalled):
        await body.next_part()


async def test_a_file_is_read_up_to_the_limit_and_no_further() -> None:
    request, rest = await request_of(one(b"x" * 1_001))
    exact, _ = await request_of(one(b"x" * 1_000))

    assert await failure(request.variables["file"]) == ("UPLOAD_TOO_LARGE", "The file has more than 1,000 bytes.")
    assert await rest.drain()
    assert len(await read_all(exact.variables["file"])) == 1_000


async def test_unread_data_is_drained_up_to_a_limit() -> None:
    _, beyond = await request_of(one(b"x" * 200_000), size=5_000)
    _, within = await request_of(one(b"x" * 60_000))

    assert not await beyond.drain()
    assert await within.drain()


async def test_data_after_the_last_boundary_is_ignored() -> None:
    body = body_of(one(b"x"))
    request, rest = await read_request(messages(body + b"anything", b"more"), request_headers(), SETTINGS, ROOM)

    assert await read_all(request.variables["file"]) == b"x"
    assert await rest.drain()


@given(st.binary(max_size=300), st.integers(1, 50))
async def test_random_bytes_are_refused(body: bytes, size: int) -> None:
    parts = MultipartBody(messages(*pieces_of(body, size)), CONTENT_TYPE, 5.0)

    with pytest.raises(MultipartError):
        [part async for part in parts_in(parts)]
