"""Makes HTTP clients of tests cheap: many tests send only one request to a process or an application."""

from __future__ import annotations

import functools
import sys

import httpx
from httpx._transports import default


def patch_clients() -> None:
    """Patches httpx in this process. Without this, clients take 2 % of the processor time of all tests."""
    # Reading the trusted certificates takes 20 ms, and no test connects to a server that has one of them.
    kept = functools.cache(httpx.create_ssl_context)
    httpx.create_ssl_context = kept
    default.create_ssl_context = kept  # type: ignore[attr-defined]
    # httpx imports this package for every event. If it is not installed, Python looks for it everywhere each time.
    sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]
