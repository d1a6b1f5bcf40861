"""Renders the Markdown of one operation: each text once, however often it is shown, and a bounded number of characters.

Markup that is made to be slow takes five milliseconds for a thousand characters, and many times as long as it takes to
read them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from graphql import GraphQLError

from portico.loaders.batching import BatchRead

from .context import Context

# In characters. An operation that has rendered as many renders no further text.
MOST = 100_000
# A longer text is rendered in a thread.
_SHORT = 2_000


async def rendered(context: Context, render: Callable[[str], str], text: str) -> str:
    """Returns the HTML of a text. Raises OPERATION_TOO_COMPLEX if the operation renders too much."""
    html = await context.loader(("rendered", render), lambda: _renderer(render)).load(text)
    if html is None:
        raise GraphQLError(
            f"The operation renders more than {MOST:,} characters of Markdown. Ask for smaller pages, or for the text "
            "instead of the HTML.",
            extensions={"code": "OPERATION_TOO_COMPLEX"},
        )
    found: str = html
    return found


def _renderer(render: Callable[[str], str]) -> BatchRead[str, str]:
    left = MOST

    async def render_all(texts: Sequence[str]) -> Mapping[str, str]:
        nonlocal left
        found = {}
        for text in texts:
            if left <= 0:
                break
            left -= len(text)
            found[text] = render(text) if len(text) <= _SHORT else await asyncio.to_thread(render, text)
        return found

    return render_all
