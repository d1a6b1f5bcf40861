"""Large photos on a real server: uploads and downloads take little memory, and a refusal does not wait for the rest."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.resolvers.content.settings import ContentSettings
from portico.schema.roles import Role
from tests.content.support.photos import photo_input, picture, upload_body
from tests.support.harness import IS_SOAK
from tests.support.multipart import CONTENT_TYPE, PREFLIGHT
from tests.support.processes import Served, environment, own_database, served

# The width and height of a picture with three bytes per pixel: 200 MB in a soak run, else 48 MB.
SIDE = 8_200 if IS_SOAK else 4_000
MOST_KILOBYTES = 20_000


@pytest.fixture(scope="module")
def settings(mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with own_database(mongodb_uri, tmp_path_factory.mktemp("settings")) as found:
        yield replace(
            found, max_upload_bytes=250_000_000, slices={ContentSettings: ContentSettings(max_photo_pixels=70_000_000)}
        )


@pytest.fixture(scope="module")
def gateway(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), environment(settings)) as found:
        yield found


@pytest.fixture(scope="module")
def headers(settings: Settings) -> dict[str, str]:
    token = Authenticator(settings).issue("me", [Role.EDITOR], now=SystemClock().now(), lasts=timedelta(hours=1))
    return {"authorization": f"Bearer {token}", "content-type": CONTENT_TYPE, **PREFLIGHT}


@pytest.fixture(scope="module")
def gallery(gateway: Served, headers: dict[str, str]) -> dict[str, Any]:
    text = """mutation { createSection(input: {kind: GALLERY, slug: "gallery", title: "Gallery"}) {
      ... on ContentPayload { content { id } } } }"""
    response = httpx.post(gateway.graphql, json={"query": text}, headers={"authorization": headers["authorization"]})
    found: dict[str, Any] = response.json()["data"]["createSection"]["content"]
    return found


def peak(gateway: Served) -> int:
    """Return the peak memory of the server in kilobytes."""
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1])


def upload(gateway: Served, headers: dict[str, str], given: dict[str, Any], data: bytes) -> Any:
    body = upload_body("uploadPhoto", given, data)
    response = httpx.post(gateway.graphql, content=body, headers=headers, timeout=150)
    return response.json()["data"]["uploadPhoto"]


def test_a_large_photo_is_uploaded_and_downloaded_with_little_memory(
    gateway: Served, headers: dict[str, str], gallery: dict[str, Any]
) -> None:
    out = io.BytesIO()
    Image.frombytes("RGB", (SIDE, SIDE), os.urandom(3 * SIDE * SIDE)).save(out, "PNG", compress_level=0)
    data = out.getvalue()
    assert len(data) > 3 * SIDE * SIDE
    # The small photo loads what the server loads once.
    small = upload(gateway, headers, photo_input(gallery, slug="small"), picture(500, 500))["photo"]
    httpx.get(f"{gateway.url}{small['thumbnailUrl']}")
    before = peak(gateway)

    photo = upload(gateway, headers, photo_input(gallery, slug="large"), data)["photo"]
    after_upload = peak(gateway)
    digest = hashlib.sha256()
    with httpx.stream("GET", f"{gateway.url}{photo['url']}", timeout=150) as response:
        for piece in response.iter_bytes():
            digest.update(piece)
    thumbnail = httpx.get(f"{gateway.url}{photo['thumbnailUrl']}", timeout=150)

    assert (photo["length"], photo["checksum"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert digest.hexdigest() == photo["checksum"]
    assert Image.open(io.BytesIO(thumbnail.content)).size == (80, 80)
    assert after_upload - before < MOST_KILOBYTES
    assert peak(gateway) - before < MOST_KILOBYTES


def test_an_invalid_file_is_refused_before_the_upload_is_complete(
    gateway: Served, headers: dict[str, str], gallery: dict[str, Any]
) -> None:
    body = upload_body("uploadPhoto", photo_input(gallery), b"<svg>" + b" " * 1_000_000)
    head = "POST /graphql HTTP/1.1\r\nHost: gateway\r\nContent-Length: 200000000\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.sendall(head.encode() + body[:500_000])
        began = time.monotonic()
        received = b""
        while part := connection.recv(65_536):
            received += part
    top, _, answer = received.partition(b"\r\n\r\n")

    # The server waits a while for the rest, which never comes.
    assert time.monotonic() - began < 10
    assert b"connection: close" in top.lower()
    assert json.loads(answer)["data"]["uploadPhoto"]["__typename"] == "UnacceptableFile"


def test_a_client_that_sends_all_of_a_refused_file_keeps_its_connection(
    gateway: Served, headers: dict[str, str], gallery: dict[str, Any]
) -> None:
    body = upload_body("uploadPhoto", photo_input(gallery), b"<svg>" + b" " * 5_000_000)
    with httpx.Client(timeout=30) as client:
        responses = [client.post(gateway.graphql, content=body, headers=headers) for _ in range(2)]

    for response in responses:
        assert response.json()["data"]["uploadPhoto"]["__typename"] == "UnacceptableFile"
        assert response.headers.get("connection") != "close"
