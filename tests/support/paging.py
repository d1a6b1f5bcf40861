"""Lists that are read page by page, each from the cursor of the one before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from tests.support.harness import GatewayClient

# Reads the page after a cursor, or before one; from an end of the list without one. Returns the connection.
ReadPage = Callable[[str | None], Awaitable[Any]]


async def pages(read: ReadPage, *, backwards: bool = False) -> AsyncIterator[Any]:
    """Yields all pages of a list, from its beginning or backwards from its end."""
    has_more, end = ("hasPreviousPage", "startCursor") if backwards else ("hasNextPage", "endCursor")
    cursor = None
    while True:
        page = await read(cursor)
        yield page
        if not page["pageInfo"][has_more]:
            return
        cursor = page["pageInfo"][end]
        assert cursor is not None


async def nodes_of(read: ReadPage) -> list[Any]:
    """Returns the nodes of all pages."""
    return [node async for page in pages(read) for node in page["nodes"]]


async def all_pages(read: ReadPage) -> list[list[Any]]:
    """Returns the nodes of each page. Checks what each page says about the pages before."""
    found: list[list[Any]] = []
    async for page in pages(read):
        assert page["pageInfo"].get("hasPreviousPage", bool(found)) is bool(found)
        found.append(page["nodes"])
    return found


def joined(found: Iterable[list[Any]]) -> list[Any]:
    return [node for page in found for node in page]


async def pages_of(gateway: GatewayClient, query: str, *path: str, **variables: Any) -> AsyncIterator[dict[str, Any]]:
    """Yields every page of the list at the path in the data of a query, whose variable `after` is a cursor."""

    async def read(after: str | None) -> Any:
        found: Any = await gateway.data(query, {**variables, "after": after})
        for name in path:
            found = found[name]
        return found

    async for page in pages(read):
        yield page


async def rows_of(gateway: GatewayClient, query: str, *path: str, **variables: Any) -> list[Any]:
    """Returns the nodes of all pages."""
    return [row async for page in pages_of(gateway, query, *path, **variables) for row in page["nodes"]]
