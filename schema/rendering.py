"""Renders the Markdown of one operation: each text once, however often it is shown, and for a bounded time.

The bound is one of CPU time and not of characters. Ten thousand characters of a blog take 3 ms, and as many that are
made to be slow 94 ms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from graphql import GraphQLError

from portico.loaders.batching import BatchRead

from .context import Context

# In seconds of CPU time. An operation that has rendered for so long renders no further text.
MOST = 0.3
# A longer text is rendered in the thread.
_SHORT = 2_000
# One thread renders all long texts, because each can take 40 MB meanwhile.
_THREAD = ThreadPoolExecutor(1, "markdown")

T = TypeVar("T")


async def rendered(context: Context, render: Callable[[str], str], text: str) -> str:
    """Returns the HTML of a text. Raises OPERATION_TOO_COMPLEX if the operation renders too much."""
    html = await context.loader(("rendered", render), lambda: _renderer(render)).load(text)
    if html is None:
        raise GraphQLError(
            "The operation renders too much Markdown. Ask for smaller pages, or for the text instead of the HTML.",
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
            timed = partial(_timed, render, text)
            found[text], seconds = timed() if len(text) <= _SHORT else await in_thread(timed)
            left -= seconds
        return found

    return render_all


async def in_thread(render: Callable[[], T]) -> T:
    """Calls the function when no other text is being rendered in the thread."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, render)


def _timed(render: Callable[[str], str], text: str) -> tuple[str, float]:
    """Returns the HTML, and how much CPU time of this thread it took, in seconds."""
    began = time.thread_time()
    html = render(text)
    return html, time.thread_time() - began
