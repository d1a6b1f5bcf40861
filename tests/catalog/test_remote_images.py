"""Images that an import names by their URLs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from portico.gateway.domains.catalog.records import image_record
from portico.gateway.domains.catalog.remote_images import RemoteImages
from portico.resolvers.catalog.image_edits import ImageRules, import_images
from portico.resolvers.errors import InvalidInput, UnacceptableFile
from tests.catalog.support.images import IMAGES
from tests.content.support.photos import picture
from tests.support.harness import GatewayClient, create_product

PUBLIC = "93.184.215.14"
URL = "https://pictures.example/a.png"


Hosts = dict[str, list[str]]
HOSTS: Hosts = {"pictures.example": [PUBLIC]}


def remote(server: httpx.AsyncBaseTransport, hosts: Hosts = HOSTS, **options: Any) -> RemoteImages:
    """Returns what downloads from this server. The hosts have these addresses."""

    async def addresses_of(host: str, _port: int) -> list[str]:
        if host not in hosts:
            raise socket.gaierror("unknown")
        return hosts[host]

    return RemoteImages(transport=server, addresses_of=addresses_of, **options)


class Server(httpx.AsyncBaseTransport):
    """Answers each path with a status, headers and a body. Keeps the requests."""

    def __init__(self, **answers: tuple[int, dict[str, str], bytes]) -> None:
        self.answers = answers
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        status, headers, body = self.answers[request.url.path.strip("/").partition(".")[0]]
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))


async def read(server: httpx.AsyncBaseTransport, hosts: Hosts = HOSTS, **options: Any) -> bytes:
    return b"".join([piece async for piece in remote(server, hosts, **options).read(URL)])


async def test_an_image_is_imported_by_its_url(gateway: GatewayClient) -> None:
    await create_product(gateway, sku="A")
    server = Server(a=(200, {}, picture(30, 20)))
    rules = replace(gateway.state.resources.of(ImageRules), download=remote(server).read)
    record = image_record({"product": "A", "url": URL, "alt": "A cover"}, Path("images.jsonl"))

    done = [await import_images(gateway.db, [record], rules=rules, now=gateway.clock.now()) for _ in range(2)]

    assert done == [["created"], ["unchanged"]]
    (image,) = (await gateway.data(f'{{ product(sku: "A") {{ {IMAGES} }} }}'))["product"]["images"]
    assert (image["width"], image["height"], image["alt"]) == (30, 20, "A cover")
    # One request for each import, to the address that was checked, with the name of the host.
    assert len(server.requests) == 2
    (request, _) = server.requests
    assert (request.url.host, request.headers["host"]) == (PUBLIC, "pictures.example")
    assert request.extensions["sni_hostname"] == "pictures.example"


async def test_a_file_that_is_too_large_is_not_read_to_its_end(gateway: GatewayClient) -> None:
    await create_product(gateway, sku="A")
    sent = 0

    async def endless(_url: str) -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield bytes(100_000)

    rules = replace(gateway.state.resources.of(ImageRules), download=endless)
    record = image_record({"product": "A", "url": URL}, Path("images.jsonl"))

    (refused,) = await import_images(gateway.db, [record], rules=rules, now=gateway.clock.now())

    assert isinstance(refused, UnacceptableFile)
    assert sent <= rules.max_bytes // 100_000 + 1


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:10.0.0.1"],
        ["fd00::1"],
        ["fec0::1"],
        ["::10.0.0.1"],
        ["::ffff:0:10.0.0.1"],
        ["64:ff9b::169.254.169.254"],
        ["64:ff9b:1::10.0.0.1"],
        ["2002:a00:1::1"],
        [PUBLIC, "10.1.2.3"],
    ],
)
async def test_private_addresses_are_refused_unless_they_are_allowed(addresses: list[str]) -> None:
    hosts = {"pictures.example": addresses}
    server = Server(a=(200, {}, b"bytes"))

    with pytest.raises(UnacceptableFile, match="private address"):
        await read(server, hosts)
    assert server.requests == []
    assert await read(server, hosts, allows_private=True) == b"bytes"


@pytest.mark.parametrize("address", [PUBLIC, "2606:4700::1", f"64:ff9b::{PUBLIC}", f"::ffff:{PUBLIC}"])
async def test_public_addresses_of_both_versions_are_read(address: str) -> None:
    assert await read(Server(a=(200, {}, b"bytes")), {"pictures.example": [address]}) == b"bytes"


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "identity, gzip"])
async def test_a_compressed_file_is_refused_because_it_can_become_huge(encoding: str) -> None:
    server = Server(a=(200, {"content-encoding": encoding}, b"bytes"))

    with pytest.raises(UnacceptableFile, match="compressed"):
        await read(server)
    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://inside.example/a.png", "private address"),
        ("file:///etc/passwd", "must begin with http"),
        ("/a.png", "more than 3 redirects"),
        ("https://unknown.example/a.png", "gaierror"),
    ],
)
async def test_redirects_are_checked_like_the_first_address(location: str, message: str) -> None:
    hosts = {**HOSTS, "inside.example": ["192.168.0.1"]}

    with pytest.raises(UnacceptableFile, match=message):
        await read(Server(a=(302, {"location": location}, b"")), hosts)


async def test_a_redirect_to_a_public_host_is_followed() -> None:
    server = Server(a=(302, {"location": "/b.png"}, b""), b=(200, {}, b"bytes"))

    assert await read(server) == b"bytes"


async def test_a_failed_or_slow_download_is_refused() -> None:
    class Slow(httpx.AsyncBaseTransport):
        async def handle_async_request(self, _request: httpx.Request) -> httpx.Response:
            await asyncio.sleep(30)
            raise AssertionError

    with pytest.raises(UnacceptableFile, match="status 404"):
        await read(Server(a=(404, {}, b"")))
    with pytest.raises(UnacceptableFile, match=r"longer than 0\.05 seconds"):
        await read(Slow(), seconds=0.05)


@pytest.mark.parametrize(
    "given",
    [
        {"product": "A", "url": "ftp://pictures.example/a.png"},
        {"product": "A", "url": URL, "file": "a.png"},
        {"product": "A", "url": 7},
        {"product": "A"},
    ],
)
def test_a_record_names_one_web_address_or_one_file(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        image_record(given, Path("images.jsonl"))
