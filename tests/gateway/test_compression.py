"""Responses are compressed for clients that accept it, if that pays. Streams are not."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx
import orjson
import pytest

from portico.gateway.settings import Settings
from tests.support.aliases import aliased
from tests.support.harness import GatewayClient, running
from tests.support.sockets import listening

# Some kilobytes, and some bytes.
LARGE = f"query {{ {aliased('__typename', 200)} }}"
SMALL = "{ __typename }"
RESPONSE_TYPE = "application/graphql-response+json"


async def raw(
    port: int, text: str, headers: Mapping[str, str | None], method: str = "POST"
) -> tuple[httpx.Headers, bytes]:
    """Sends an operation with exactly these headers. Returns the headers of the answer, and its body as it came."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        client.headers.pop("accept-encoding")
        chosen = {name: value for name, value in headers.items() if value is not None}
        given: dict[str, Any] = {"params": {"query": text}} if method == "GET" else {"json": {"query": text}}
        request = client.build_request(method, "/graphql", headers=chosen, **given)
        response = await client.send(request, stream=True)
        body = b"".join([part async for part in response.aiter_raw()])
        await response.aclose()
        return response.headers, body


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("media_type", ["application/json", RESPONSE_TYPE])
@pytest.mark.parametrize(
    ("accepted", "used"),
    [
        ("gzip", "gzip"),
        ("gzip, deflate, br", "br"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=0, br;q=0.1", "br"),
        ("*", "zstd"),
        ("identity", None),
        ("deflate", None),
        ("gzip;q=0", None),
        ("", None),
        (None, None),
    ],
)
async def test_a_large_answer_has_an_encoding_that_the_client_accepts(
    port: int, accepted: str | None, used: str | None, media_type: str, method: str
) -> None:
    headers, body = await raw(port, LARGE, {"accept": media_type, "accept-encoding": accepted}, method)

    assert headers.get("content-encoding") == used
    assert headers["content-type"] == f"{media_type}; charset=utf-8"
    assert int(headers["content-length"]) == len(body)
    found = httpx.Response(200, headers=headers, content=body).json()
    assert len(found["data"]) == 200
    if used is not None or method == "GET":
        # A cache must not give the answer to a client that cannot decode it.
        assert "Accept-Encoding" in headers["vary"].split(", ")


async def test_a_small_answer_is_not_compressed(port: int) -> None:
    headers, body = await raw(port, SMALL, {"accept-encoding": "gzip, br, zstd"})

    assert "content-encoding" not in headers
    assert orjson.loads(body) == {"data": {"__typename": "Query"}}


async def test_the_settings_decide_the_size_and_whether_to_compress(settings: Settings) -> None:
    for changed, used in (({"compress_bytes": 10}, "gzip"), ({"compression": False}, None)):
        async with running(replace(settings, **changed)) as gateway, listening(gateway) as port:
            for text in (SMALL, LARGE):
                headers, _ = await raw(port, text, {"accept-encoding": "gzip"})
                assert headers.get("content-encoding") == used


async def test_a_page_of_another_origin_gets_both_headers(settings: Settings) -> None:
    chosen = replace(settings, cors_origins="https://shop.example")
    async with running(chosen) as gateway, listening(gateway) as port:
        given = {"accept-encoding": "gzip", "origin": "https://shop.example"}
        headers, body = await raw(port, LARGE, given)

    assert headers["content-encoding"] == "gzip"
    assert headers["access-control-allow-origin"] == "https://shop.example"
    assert {name.strip().lower() for name in headers["vary"].split(",")} == {"accept-encoding", "origin"}
    assert len(orjson.loads(gzip.decompress(body))["data"]) == 200


@pytest.mark.parametrize("accepted", ["gzip", "br", "zstd"])
async def test_a_stream_of_events_is_never_compressed(port: int, accepted: str) -> None:
    headers, body = await raw(port, LARGE, {"accept": "text/event-stream", "accept-encoding": accepted})

    assert "content-encoding" not in headers
    assert body.startswith(b":")
    assert b"event: next" in body


async def test_errors_and_other_pages_are_compressed(gateway: GatewayClient, port: int) -> None:
    headers, body = await raw(port, f"{{ {aliased('nothing', 50)} }}", {"accept-encoding": "gzip"})
    assert headers["content-encoding"] == "gzip"
    assert orjson.loads(gzip.decompress(body))["errors"]
    metrics = await gateway.http.get("/metrics", headers={"accept-encoding": "gzip"})

    assert metrics.headers["content-encoding"] == "gzip"
    assert "portico_operations" in metrics.text
