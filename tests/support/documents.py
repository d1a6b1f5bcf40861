"""Finds the documents that a test expects in the database."""

from __future__ import annotations

from typing import Any

from portico.resolvers.documents import Document


async def only(collection: Any, query: Document | None = None) -> Document:
    """Returns the document of the collection that matches. Fails if none or several do."""
    (found,) = await collection.find(query or {}).to_list()
    return dict(found)
