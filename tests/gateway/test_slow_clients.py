"""A client that does not end its request is cut off, and headers that are too large are refused.

So is what a client can send beside its headers and its body: a trailer section, and requests that wait for answers.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.support.fixtures import process_with
from tests.support import multipart
from tests.support.processes import Served

MANY = 65
HEAD = b"POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
UPLOAD = f"POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: {multipart.CONTENT_TYPE}\r\n".encode()
OPERATIONS = multipart.body_of([multipart.part("operations", b'{"query": "{ __typename }"')], is_ended=False)[:-20]
QUERY = b'{"query": "{ __typename }"}'
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(QUERY), QUERY)
SOCKET = (
    b"GET /graphql HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
)
# What a client sends that does not end its request.
BEGUN = {
    "a request line": b"POST /graphql HT",
    "headers": HEAD + b"X-Name: a",
    "a body": HEAD + b"Content-Length: 100\r\n\r\n{",
    "a chunked body": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{    \r\n",
    "the first part of an upload": UPLOAD
    + b"GraphQL-Require-Preflight: true\r\nContent-Length: 5000\r\n\r\n"
    + OPERATIONS,
}

# It waits a second for headers, and two seconds for bodies.
gateway = process_with(header_seconds=1.0, body_seconds=2.0)
# It waits longer than a busy machine pauses.
patient = process_with()


@contextlib.contextmanager
def connected(gateway: Served) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as client:
        yield client


def answers(client: socket.socket) -> bytes:
    """Everything that the gateway sends until it closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def answer(client: socket.socket) -> bytes:
    """The answer to one query, on a connection that stays open."""
    received = b""
    while not received.endswith(b"}}"):
        part = client.recv(65536)
        assert part, received
        received += part
    return received


def send_forever(client: socket.socket, data: bytes) -> None:
    """Sends the data again and again: more than the kernels on both sides hold."""
    for _ in range(1_000):
        client.sendall(data)


def status_and_code(answer: bytes) -> tuple[int, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    return int(head.split()[1]), json.loads(body)["errors"][0]["extensions"]["code"]


def test_a_connection_without_a_request_is_closed_without_an_answer(gateway: Served) -> None:
    with connected(gateway) as client:
        assert answers(client) == b""


@pytest.mark.parametrize("sent", BEGUN.values(), ids=BEGUN)
def test_a_client_that_does_not_end_its_headers_or_its_body_is_cut_off(gateway: Served, sent: bytes) -> None:
    with connected(gateway) as client:
        client.sendall(sent)

        assert status_and_code(answers(client)) == (408, "TIMEOUT")


@pytest.mark.parametrize("sent", [HEAD + b"X-Name: ", BEGUN["a body"]], ids=["headers", "body"])
def test_a_client_that_sends_a_byte_now_and_then_is_cut_off_too(gateway: Served, sent: bytes) -> None:
    with connected(gateway) as client:
        client.sendall(sent)
        client.settimeout(0.2)
        received = b""
        while b"errors" not in received:
            with contextlib.suppress(TimeoutError):
                client.sendall(b" ")
                received += client.recv(65536)

    assert status_and_code(received) == (408, "TIMEOUT")


def test_the_second_request_of_a_connection_is_cut_off_too(gateway: Served) -> None:
    with connected(gateway) as client:
        client.sendall(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(QUERY), QUERY))
        assert b"Query" in answer(client)
        client.sendall(HEAD)

        assert status_and_code(answers(client)) == (408, "TIMEOUT")


def test_a_body_that_nobody_reads_holds_no_connection(gateway: Served) -> None:
    with connected(gateway) as client:
        client.sendall(b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")

        assert b" 405 " in answers(client)


def test_many_slow_clients_do_not_stay(gateway: Served) -> None:
    sent = [b"", *BEGUN.values()]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(gateway)) for _ in range(MANY)]
        for number, client in enumerate(clients):
            client.sendall(sent[number % len(sent)])

        for client in clients:
            answers(client)

        assert gateway.ask("{ __typename }").json() == {"data": {"__typename": "Query"}}


def test_an_idle_connection_is_not_cut_off(gateway: Served) -> None:
    with connected(gateway) as client:
        request = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(QUERY), QUERY)
        for _ in range(2):
            client.sendall(request)
            assert b" 200 " in answer(client)
            # Longer than a client has for its headers: between two requests, a connection may be idle.
            time.sleep(1.5)
        client.sendall(request)

        assert b" 200 " in answer(client)


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"X-Name: " + b"a" * 17_000 + b"\r\n",
        HEAD + b"".join(b"X-Name-%d: a\r\n" % number for number in range(2_000)),
        b"GET /graphql?query=" + b"a" * 17_000 + b" HTTP/1.1\r\nHost: a\r\n",
    ],
    ids=["one header", "many headers", "URL"],
)
@pytest.mark.parametrize("end", [b"\r\n", b"X-Next: "], ids=["ended", "never ended"])
def test_headers_of_more_than_16_kilobytes_are_refused(patient: Served, head: bytes, end: bytes) -> None:
    with connected(patient) as client:
        client.sendall(head[:100])
        time.sleep(0.1)
        client.sendall(head[100:] + end)

        assert status_and_code(answers(client)) == (431, "HEADERS_TOO_LARGE")


def test_headers_of_15_kilobytes_are_accepted(patient: Served) -> None:
    with connected(patient) as client:
        client.sendall(HEAD + b"X-Name: " + b"a" * 15_000 + b"\r\nContent-Length: %d\r\n\r\n%s" % (len(QUERY), QUERY))

        assert b" 200 " in answer(client)


def test_the_fields_of_a_trailer_section_are_no_headers(patient: Served) -> None:
    trailers = b"Authorization: Bearer none\r\nX-Forwarded-For: 192.0.2.1\r\nX-Request-Id: chosen\r\n\r\n"
    with connected(patient) as client:
        client.sendall(CHUNKED + b"0\r\n" + trailers)
        received = answer(client)

    assert b" 200 " in received
    assert b"chosen" not in received


@pytest.mark.parametrize(
    "endless", [b"a: b\r\n" * 3_000, b"a" * 20_000], ids=["of many fields", "of one field that never ends"]
)
def test_an_endless_trailer_section_is_cut_off(patient: Served, endless: bytes) -> None:
    with connected(patient) as client:
        client.sendall(CHUNKED + b"0\r\nName: ")

        with pytest.raises(ConnectionError):
            send_forever(client, endless)


def test_a_client_that_sends_many_requests_at_once_is_cut_off(patient: Served) -> None:
    request = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(QUERY), QUERY)
    before = len(patient.process.errors)
    with connected(patient) as client:
        client.sendall(50 * request)
        received = b""
        while received.count(b"}}") < 50:
            received += client.recv(65536)
        with contextlib.suppress(ConnectionError):
            client.sendall(3_000 * b"GET / HTTP/1.1\r\n\r\n")

        assert answers(client).count(b" 200 ") < 3_000

    # Its other requests are no fault of the gateway.
    assert "Traceback" not in patient.process.errors[before:]


@pytest.mark.parametrize(
    "sent",
    [
        [b"NONSENSE\r\n\r\n"],
        [b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: other\r\n\r\n"],
        [SOCKET, b"\x81\x82\0\0\0\0\xff\xfe"],
        [UPLOAD + b"GraphQL-Require-Preflight: true\r\nConnection: close\r\nContent-Length: 8\r\n\r\nnonsense"],
    ],
    ids=["a request", "an upgrade", "a text on a socket", "an upload"],
)
def test_what_a_client_sends_does_not_fill_the_log(patient: Served, sent: list[bytes]) -> None:
    before = len(patient.process.errors)
    with connected(patient) as client:
        for part in sent[:-1]:
            client.sendall(part)
            assert client.recv(65536)
        client.sendall(sent[-1])
        assert answers(client)

    # The gateway's own lines begin with a date.
    assert not [line for line in patient.process.errors[before:].splitlines() if not line.startswith("2")]
