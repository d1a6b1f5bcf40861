"""Reads whole lists, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tests.support.harness import GatewayClient


async def pages_of(gateway: GatewayClient, query: str, *path: str, **variables: Any) -> AsyncIterator[dict[str, Any]]:
    """Yields every page of the list at the path in the data of a query, whose variable `after` is a cursor."""
    after, has_next = None, True
    while has_next:
        found: Any = await gateway.data(query, {**variables, "after": after})
        for name in path:
            found = found[name]
        yield found
        after, has_next = found["pageInfo"]["endCursor"], found["pageInfo"]["hasNextPage"]


async def rows_of(gateway: GatewayClient, query: str, *path: str, **variables: Any) -> list[Any]:
    """Returns the nodes of all pages."""
    return [row async for page in pages_of(gateway, query, *path, **variables) for row in page["nodes"]]
