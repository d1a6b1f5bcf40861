"""The memory of processes that serve, and clients that send an operation without reading its answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_socket

from portico.gateway.http.websocket import PROTOCOL
from portico.gateway.mongo.driver import connect
from portico.gateway.settings import Settings
from tests.catalog.support.catalog import add_products, product
from tests.support.processes import Served, eventually

MB = 1_000_000
# What a worker may use, whatever its clients ask for.
MOST = 250 * MB
# Descriptions of two megabytes, each shown twice: four megabytes.
LARGE = "{ products(first: 100) { nodes { description again: description } } }"
LARGE_BYTES = 4 * MB


def memory(pid: int, name: str = "VmRSS") -> int:
    """Bytes of a process: `VmRSS` is its current size, `VmHWM` is its peak size."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024


def forget_peak(pid: int) -> None:
    """Makes the current size the peak size."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def store_large_products(settings: Settings) -> None:
    """Stores a hundred products with the longest descriptions."""

    async def store() -> None:
        assert settings.mongodb_uri is not None
        connection = connect(settings, settings.mongodb_uri)
        await add_products(connection.database, [product(description="x" * 20_000) for _ in range(100)])
        await connection.close()

    asyncio.run(store())


def request(query: str, variables: Mapping[str, Any] | None = None, **headers: str) -> bytes:
    """Returns the bytes of an HTTP request. An underscore in the name of a header stands for a dash."""
    body = json.dumps({"query": query, "variables": variables or {}}).encode()
    lines = {"Host": "a", "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"POST /graphql HTTP/1.1\r\n{head}\r\n".encode() + body


def wait_until_quiet(gateway: Served, seconds: float = 30.0) -> None:
    """Waits until no operation runs, or waits to run."""

    def is_quiet() -> bool:
        text = httpx.get(f"{gateway.url}/metrics", timeout=seconds).text
        names = ("portico_operations_running{", "portico_operations_queued{")
        return not sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(names))

    time.sleep(0.5)
    eventually(is_quiet, seconds)


@contextlib.contextmanager
def unbuffered(gateway: Served) -> Iterator[socket.socket]:
    """Yields a connection whose kernel receives little ahead of its reader."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.settimeout(30)
        client.connect(("127.0.0.1", gateway.port))
        yield client


@contextlib.contextmanager
def socket_of(gateway: Served, token: str | None = None) -> Iterator[ClientConnection]:
    """Yields a socket whose client receives little ahead of its reader."""
    url = gateway.graphql.replace("http://", "ws://")
    options: dict[str, Any] = {"subprotocols": [PROTOCOL], "max_size": None, "max_queue": 1, "close_timeout": 0.1}
    payload = {} if token is None else {"Authorization": f"Bearer {token}"}
    with unbuffered(gateway) as connected, connect_socket(url, sock=connected, **options) as client:
        client.send(json.dumps({"type": "connection_init", "payload": payload}))
        assert json.loads(client.recv(timeout=20)) == {"type": "connection_ack"}
        yield client
