"""What is discussed: whether it is still there, and its discussion, opened on what is there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId

from portico.resolvers.catalog import products
from portico.resolvers.content import nodes as content
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound

from .discussions import close, open_discussion

# The kind and the key of something that can be discussed.
Subject = tuple[str, str]


async def find_subjects(db: Database, subjects: Sequence[Subject]) -> dict[Subject, Document]:
    """Those of them that are there, with their `_id`, and with the mark of a deletion that is under way."""
    skus = [key for kind, key in subjects if kind == products.KIND]
    nodes = [ObjectId(key) for kind, key in subjects if kind == content.KIND]
    found: dict[Subject, Document] = {}
    if skus:
        known = await products.find_by_skus(db, skus, {"deleting": 1})
        found |= {(products.KIND, sku): product for sku, product in known.items()}
    if nodes:
        there = await content.find_by_ids(db, nodes, {"_id": 1})
        found |= {(content.KIND, str(key)): node for key, node in there.items()}
    return found


async def open_on(
    db: Database, *, kind: str, key: str, of: ObjectId, storage: str, subject: str, now: datetime
) -> Document:
    """The discussion on a subject that the caller has seen, opened where there is none.

    A deletion looks for the discussion once the subject is marked or gone, and this looks for the subject once the
    discussion is there. So one of them sees the other.

    Args:     of: the subject's `_id`.
    Raises:   NotFound (the subject: it has been deleted, or is about to be).
    Writes:   discussions; one insert, and one update where the subject went meanwhile.
    """
    opened = await open_discussion(db, kind=kind, key=key, of=of, storage=storage, subject=subject, now=now)
    found = (await find_subjects(db, [(kind, key)])).get((kind, key))
    if found is None or found["_id"] != of:
        await close(db, kind=kind, key=key, of=of, by="", is_final=True, now=now)
        raise NotFound(kind, key)
    deleting = found.get("deleting")
    if deleting is not None:
        await close(db, kind=kind, key=key, of=of, by=deleting["id"], is_final=False, now=now)
        raise NotFound(kind, key)
    return opened
