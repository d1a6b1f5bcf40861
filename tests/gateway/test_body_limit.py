"""A real server refuses bodies over the limit at once, uses little memory, and leaves no connection open."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from portico.gateway.settings import Settings
from tests.support.harness import MUTATIONS
from tests.support.memory import MB, memory
from tests.support.processes import Served, environment, own_database, portico, served

LIMIT = 1_000_000
HEAD = "POST /graphql HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
CHUNK = b" " * 65_536
TWENTY_MEGABYTES = 20_000_000


@pytest.fixture(scope="module")
def settings(mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with own_database(mongodb_uri, tmp_path_factory.mktemp("settings")) as found:
        yield found


@pytest.fixture(scope="module")
def gateway(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), environment(settings)) as found:
        yield found


def send_body(gateway: Served, head: str, size: int, *, is_chunked: bool) -> tuple[int, dict[str, str], int]:
    """Send a body of spaces while the server takes it. Return the status, the headers, and how much it took."""
    sent = 0
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as connection:
        connection.sendall(head.encode())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < size:
                part = CHUNK[: size - sent]
                connection.sendall(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
                sent += len(part)
        received = _received(connection)
    status_line, *lines = received.partition(b"\r\n\r\n")[0].decode().splitlines()
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert json.loads(received.partition(b"\r\n\r\n")[2])["errors"][0]["extensions"] == {"code": "BODY_TOO_LARGE"}
    return int(status_line.split()[1]), headers, sent


def _received(connection: socket.socket) -> bytes:
    """Everything that the server sends until it closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            received += part
    return received


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_of_twenty_megabytes_is_refused_at_once_and_uses_no_memory(gateway: Served, is_chunked: bool) -> None:
    length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {TWENTY_MEGABYTES}"
    send_body(gateway, f"{HEAD}{length}\r\n\r\n", TWENTY_MEGABYTES, is_chunked=is_chunked)
    pid = gateway.process.pid
    before = [memory(pid, name) for name in ("VmRSS", "VmHWM")]

    for _ in range(8):
        begun = time.monotonic()
        status, headers, _ = send_body(gateway, f"{HEAD}{length}\r\n\r\n", TWENTY_MEGABYTES, is_chunked=is_chunked)

        assert status == 413
        assert headers["connection"] == "close"
        assert headers["content-type"] == "application/json; charset=utf-8"
        # Less than the time that a client has for its body.
        assert time.monotonic() - begun < 15

    for name, used in zip(("VmRSS", "VmHWM"), before, strict=True):
        assert memory(pid, name) - used < 10 * MB
    assert gateway.ask("{ __typename }").json() == {"data": {"__typename": "Query"}}


def test_a_body_with_a_large_content_length_is_refused_before_it_is_sent(gateway: Served) -> None:
    status, _, _ = send_body(gateway, f"{HEAD}Content-Length: {10**15}\r\n\r\n", 0, is_chunked=False)

    assert status == 413


def test_a_title_of_ten_megabytes_is_refused(gateway: Served, settings: Settings) -> None:
    token = portico("token", "--sub", "t", "--role", "MERCHANT", env=environment(settings)).stdout.strip()
    given = {"input": {"name": "x" * 10_000_000, "slug": "x"}}
    body = {"query": MUTATIONS["createCategory"], "variables": given}

    response = httpx.post(gateway.graphql, json=body, headers={"authorization": f"Bearer {token}"}, timeout=10)

    assert response.status_code == 413
    assert response.json()["errors"][0]["extensions"] == {"code": "BODY_TOO_LARGE"}


@pytest.mark.parametrize("is_chunked", [False, True])
def test_the_limit_is_exact_to_one_byte(gateway: Served, is_chunked: bool) -> None:
    query = b'{"query": "{ __typename }"}'
    statuses = []
    for size in (LIMIT, LIMIT + 1):
        body = query + b" " * (size - len(query))
        content = (body[at : at + 65_536] for at in range(0, size, 65_536)) if is_chunked else body
        response = httpx.post(
            gateway.graphql, content=content, headers={"content-type": "application/json"}, timeout=10
        )
        statuses.append(response.status_code)

    assert statuses == [200, 413]


def test_the_limit_is_a_setting(settings: Settings, tmp_path: Path) -> None:
    with served(tmp_path, environment(settings, PORTICO_MAX_BODY_BYTES="100")) as gateway:
        assert gateway.ask("{ __typename }").status_code == 200
        assert gateway.ask("{ __typename " + " " * 100 + "}").status_code == 413
