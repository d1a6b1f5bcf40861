"""What is discussed: whether it is still there, and its discussion, opened on what is there."""

from __future__ import annotations

from datetime import datetime

from bson import ObjectId

from portico.resolvers import attachments
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound

from .discussions import close, open_discussion


async def open_for_subject(
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
    found = (await attachments.find(db, [(kind, key)])).get((kind, key))
    if found is None or found["_id"] != of:
        await close(db, kind=kind, key=key, of=of, by="", is_final=True, now=now)
        raise NotFound(kind, key)
    deleting = found.get("deleting")
    if deleting is not None:
        await close(db, kind=kind, key=key, of=of, by=deleting["id"], is_final=False, now=now)
        raise NotFound(kind, key)
    return opened
