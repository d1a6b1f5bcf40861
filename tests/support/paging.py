"""Lists that are read page by page, each from the cursor of the one before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

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


async def nodes_of(read: ReadPage) -> list[Any]:
    """Returns the nodes of all pages."""
    return [node async for page in pages(read) for node in page["nodes"]]
