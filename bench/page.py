"""The request that every server gets."""

from pathlib import Path

import orjson

from bench.processes import HOST

OPERATION = Path(__file__).with_name("page.graphql")
HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


def body() -> bytes:
    return orjson.dumps({"operationName": "Page", "query": OPERATION.read_text()})


def request(port: int, path: str) -> bytes:
    """Return the whole HTTP/1.1 request, which keeps the connection open."""
    content = body()
    headers = {"Host": f"{HOST}:{port}", **HEADERS, "Content-Length": str(len(content))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content
