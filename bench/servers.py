"""Starts the peers, and compares their answers."""

import http.client
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import page
from bench.peerlist import ROOT, Peer
from bench.processes import HOST, free_port, spawn, stop

SECONDS_TO_START = 60
SECONDS_TO_ANSWER = 30


@dataclass(frozen=True)
class Server:
    """A running peer, with the body of its first answer. With a `tag`, its clients have that already."""

    peer: Peer
    port: int
    pid: int
    body: bytes
    tag: str = ""


def tag_of(server: Server) -> str:
    """Return the entity tag of the answer. Raise RuntimeError if it has none."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=SECONDS_TO_ANSWER)
    try:
        connection.request("GET", page.url(server.peer.path), None, page.GET_HEADERS)
        tag = connection.getresponse().headers["etag"]
    finally:
        connection.close()
    if tag is None:
        message = "the answer has no ETag"
        raise RuntimeError(message)
    return str(tag)


def ask(port: int, path: str) -> bytes:
    """Send the request, and return the body of the response. Raise RuntimeError if the status is not 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=SECONDS_TO_ANSWER)
    try:
        connection.request("POST", path, page.body(), page.HEADERS)
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    if response.status != http.client.OK:
        message = f"status {response.status}: {content[:300]!r}"
        raise RuntimeError(message)
    return content


@contextmanager
def running(peer: Peer, core: int | None, env: dict[str, str], logs: Path) -> Iterator[Server]:
    """Start a peer on that core, yield it when it answers, and stop it at the end."""
    port = free_port()
    command = [part.format(port=port) for part in peer.command]
    log = logs / f"{peer.name}.log"
    with log.open("wb") as output:
        process = spawn(command, core, env=env | dict(peer.env), cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + SECONDS_TO_START
        while True:
            try:
                body = ask(port, peer.path)
                break
            except ConnectionRefusedError:
                if process.poll() is not None or time.monotonic() > deadline:
                    message = f"{peer.name} did not start:\n{log.read_text(errors='replace')[-2_000:]}"
                    raise RuntimeError(message) from None
                time.sleep(0.05)
        yield Server(peer, port, process.pid, body)
    finally:
        stop(process)


def difference(expected: bytes, found: bytes, around: int = 60) -> str | None:
    """Return where two bodies differ, with the bytes around it; None if they are equal."""
    if expected == found:
        return None
    pairs = zip(expected, found, strict=False)
    at = next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(expected), len(found)))
    cut = slice(max(at - around, 0), at + around)
    return f"at byte {at} of {len(expected)} and {len(found)}: {expected[cut]!r} against {found[cut]!r}"


def differing(servers: list[Server]) -> list[str]:
    """Return a line for every server whose answer differs from the first server's."""
    first, *others = servers
    return [
        f"{server.peer.name} differs from {first.peer.name} {where}"
        for server in others
        if (where := difference(first.body, server.body))
    ]
