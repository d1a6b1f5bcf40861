"""Suggestions of products and categories."""

import asyncio
from collections.abc import Sequence

from portico.resolvers.catalog import suggestions
from portico.schema.context import Info
from portico.schema.suggesting import Suggested

from . import product_reads


async def suggest(info: Info, text: str, first: int) -> Sequence[Suggested]:
    """Suggests products, and then categories. All callers see all of them."""
    db = info.context.reading
    typed = await product_reads.typed_words(info.context, text)
    products, categories = await asyncio.gather(
        suggestions.find_products(db, typed, first=first), suggestions.find_categories(db, typed, first=first)
    )
    return [
        *(Suggested("Product", *match) for match in products),
        *(Suggested("Category", *match) for match in categories),
    ]
