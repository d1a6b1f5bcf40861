"""Reads lists page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


async def all_pages(read: Callable[[str | None], Awaitable[Any]]) -> list[list[Any]]:
    """Returns the rows of all pages. `read` gets the cursor of each. Checks what each page says about other pages."""
    pages: list[list[Any]] = []
    after = None
    while True:
        page = await read(after)
        pages.append(page["nodes"])
        assert page["pageInfo"].get("hasPreviousPage", after is not None) is (after is not None)
        if not page["pageInfo"]["hasNextPage"]:
            return pages
        after = page["pageInfo"]["endCursor"]
        assert after is not None


def rows_of(pages: list[list[Any]]) -> list[Any]:
    return [row for page in pages for row in page]
