"""Renders the Markdown of one operation: each text once, however often it is shown, and with a bounded effort.

The bound is one of steps and not of characters: ten thousand characters of a blog take 4 ms, and as many that are made
to be slow 108 ms. It is not one of time, so that what an operation may show depends on the texts alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from graphql import GraphQLError

from portico.loaders.batching import BatchRead

from .context import Context
from .markdown import Effort

# In steps (`Effort`): a third of a second. An operation that has taken so many renders no further text. A hundred long
# posts of a blog take 53,000.
MOST = 60_000
# A longer text is rendered in the thread.
_SHORT = 2_000
# One thread renders all long texts, because each can take 40 MB meanwhile.
_THREAD = ThreadPoolExecutor(1, "markdown")

T = TypeVar("T")


class Render(Protocol):
    """Renders a text, and adds the work to the effort."""

    def __call__(self, text: str, *, effort: Effort) -> str: ...


async def rendered(context: Context, render: Render, text: str) -> str:
    """Returns the HTML of a text. Raises OPERATION_TOO_COMPLEX if the operation renders too much."""
    html = await context.loader(("rendered", render), lambda: _renderer(render)).load(text)
    if html is None:
        raise GraphQLError(
            "The operation renders too much Markdown. Ask for smaller pages, or for the text instead of the HTML.",
            extensions={"code": "OPERATION_TOO_COMPLEX"},
        )
    found: str = html
    return found


def _renderer(render: Render) -> BatchRead[str, str]:
    effort = Effort()

    async def render_all(texts: Sequence[str]) -> Mapping[str, str]:
        found = {}
        for text in texts:
            if effort.steps >= MOST:
                break
            one = partial(render, text, effort=effort)
            found[text] = one() if len(text) <= _SHORT else await in_thread(one)
        return found

    return render_all


async def in_thread(render: Callable[[], T]) -> T:
    """Calls the function when no other text is being rendered in the thread."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, render)
