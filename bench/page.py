"""The request that every server gets."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import orjson

from bench.processes import HOST

OPERATION = Path(__file__).with_name("page.graphql")
HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
# The entity tag of an answer depends on what the client accepts.
GET_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


def body() -> bytes:
    return orjson.dumps({"operationName": "Page", "query": OPERATION.read_text()})


def url(path: str) -> str:
    """Return the path and query of the same request by GET."""
    return f"{path}?{urlencode({'operationName': 'Page', 'query': OPERATION.read_text()})}"


def request(port: int, path: str, tag: str = "") -> bytes:
    """Return the whole HTTP/1.1 request, which keeps the connection open. With an entity tag, it is a GET."""
    if tag:
        return _head(f"GET {url(path)}", {"Host": f"{HOST}:{port}", **GET_HEADERS, "If-None-Match": tag})
    content = body()
    return _head(f"POST {path}", {"Host": f"{HOST}:{port}", **HEADERS, "Content-Length": str(len(content))}) + content


def _head(line: str, headers: Mapping[str, str]) -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{line} HTTP/1.1\r\n{fields}\r\n".encode()
