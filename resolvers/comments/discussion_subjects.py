"""Opens discussions on subjects that exist."""

from __future__ import annotations

from datetime import datetime

from bson import ObjectId

from portico.resolvers.attachments import Hosts
from portico.resolvers.documents import Database
from portico.resolvers.errors import NotFound

from .discussions import DiscussionDocument, close, open_discussion


async def open_for_subject(
    db: Database, hosts: Hosts, *, kind: str, key: str, of: ObjectId, storage: str, subject: str, now: datetime
) -> DiscussionDocument:
    """Returns the discussion on a subject that the caller has read. Opens it if there is none.

    A deletion first marks or removes the subject, then looks for the discussion. This function first inserts the
    discussion, then looks for the subject. Therefore, at least one of the two sees the other.

    Args:     of: the subject's `_id`.
    Raises:   NotFound (the subject: it was deleted, or is being deleted).
    Writes:   discussions; one insert, and one update if the subject was deleted in the meantime.
    """
    opened = await open_discussion(db, kind=kind, key=key, of=of, storage=storage, subject=subject, now=now)
    found = await hosts.find_one(db, kind, key)
    if found is None or found["_id"] != of:
        await close(db, kind=kind, key=key, of=of, by="", is_final=True, now=now)
        raise NotFound(kind, key)
    deleting = found.get("deleting")
    if deleting is not None:
        await close(db, kind=kind, key=key, of=of, by=deleting["id"], is_final=False, now=now)
        raise NotFound(kind, key)
    return opened
