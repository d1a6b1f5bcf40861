"""Suggestions of sections, pages and blog entries."""

from collections.abc import Sequence

from portico.resolvers.content import titles
from portico.resolvers.typed_text import typed_words
from portico.schema.context import Info
from portico.schema.suggesting import Suggested

from .drafts import sees_until
from .types import CONTENT


async def suggest(info: Info, text: str, first: int) -> Sequence[Suggested]:
    """Suggests nodes that the caller sees, by the beginnings of words."""
    context = info.context
    found = await titles.find_titled(context.reading, typed_words(text), until=sees_until(context), first=first)
    return [Suggested(CONTENT.name, node["_id"], node["title"], node["title"]) for node in found]
