"""Reads of single documents that a test expects in the database."""

from __future__ import annotations

from typing import Any

from portico.resolvers.documents import Database, Document


async def only(collection: Any, query: Document | None = None) -> Document:
    """Returns the document of the collection that matches. Fails if none or several do."""
    (found,) = await collection.find(query or {}).to_list()
    return dict(found)


async def stored(db: Database, collection: str, query: Any = None) -> Document:
    """Returns the document that matches a query: any if there is none, and that with its `_id` if it has one."""
    chosen = {"_id": query["_id"]} if query and "_id" in query else query or {}
    found: Document | None = await db[collection].find_one(chosen)
    assert found is not None, (collection, query)
    return found
