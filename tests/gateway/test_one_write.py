"""What the server does with a request and its response: one write, and the address of a client behind a proxy."""

from __future__ import annotations

import re
import socket

from tests.gateway.support.fixtures import process_with
from tests.support.processes import Served

LIMIT = 600
QUERY = b'{"query": "{ categories(first: 10) { nodes { slug } } }"}'

# It limits what the anonymous callers of one address may use.
gateway = process_with(address_rate=LIMIT)


def request(*headers: str) -> bytes:
    lines = ["POST /graphql HTTP/1.1", "Host: a", "Content-Type: application/json", f"Content-Length: {len(QUERY)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + QUERY


def exchanged(client: socket.socket, sent: bytes) -> bytes:
    """Return the first part of the response."""
    client.sendall(sent)
    return client.recv(65_536)


def left(response: bytes) -> int:
    found = re.search(rb"ratelimit: .*r=(\d+)", response)
    assert found is not None, response
    return int(found[1])


def test_the_headers_and_the_body_of_a_response_arrive_together(gateway: Served) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as client:
        responses = [exchanged(client, request("X-Forwarded-For: 192.0.2.1")) for _ in range(3)]

    for response in responses:
        head, _, body = response.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
        assert f"content-length: {len(body)}".encode() in head
        assert body == b'{"data":{"categories":{"nodes":[]}}}'


def test_a_response_to_a_client_that_closes_says_that_the_connection_ends(gateway: Served) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as client:
        response = exchanged(client, request("X-Forwarded-For: 192.0.2.2", "Connection: close"))

        assert b"\r\nconnection: close\r\n" in response
        assert client.recv(1) == b""


def test_clients_behind_a_trusted_proxy_count_by_their_own_addresses(gateway: Served) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as client:
        first, again = (left(exchanged(client, request("X-Forwarded-For: 192.0.2.3"))) for _ in range(2))
        other = left(exchanged(client, request("X-Forwarded-For: 192.0.2.4")))
        proxy = left(exchanged(client, request()))

    # An allowance refills by ten a second, also while an operation runs. An operation uses several times as much.
    assert again + 10 < min(first, other, proxy)
    assert max(first, other, proxy) < LIMIT
