"""Jobs: finish or undo writes to the site after a crash."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from datetime import datetime
from functools import partial

from bson import ObjectId

from portico.resolvers.attachments import Attachments
from portico.resolvers.content.refusals import SectionNotEmpty
from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database
from portico.resolvers.errors import NotFound
from portico.resolvers.writes import intents
from portico.resolvers.writes.intents import Intent
from portico.resolvers.writes.sweeps import sweep

from . import creation, deletion, revisions
from .nodes import NODES, NodeDocument


async def finish_changes(db: Database, attachments: Attachments, *, now: datetime) -> int:
    """Finishes or undoes the writes of all marks and intents that are older than five seconds. Returns how many.

    Raises:   SweepFailed, after trying every mark and intent.
    """
    before = now - Job.STALE_AFTER

    def settle_all(mark: str) -> Awaitable[int]:
        return sweep(db, NODES, {f"{mark}.at": {"$lte": before}}, partial(_settle_left, db, attachments, mark))

    async def finish_removal(intent: Intent) -> int:
        await deletion.finish_removal(
            db, attachments, [ObjectId(key) for key in intent["keys"]], intent["_id"], now=now
        )
        return 1

    return await Job.in_sequence(
        # Deletions first, because creations and copies of texts depend on their outcome.
        *(partial(settle_all, mark) for mark in ("deleting", "pending", "unrevised")),
        partial(intents.sweep_left_behind, db, finish_removal, kind=deletion.DELETION, before=before),
    )


async def _settle_left(db: Database, attachments: Attachments, mark: str, node: NodeDocument) -> int:
    with contextlib.suppress(NotFound, SectionNotEmpty):
        await _settle(db, attachments, node, mark)
        return 1
    return 0


async def _settle(db: Database, attachments: Attachments, node: NodeDocument, mark: str) -> None:
    if mark == "pending":
        await creation.confirm_created(db, node)
    elif mark == "deleting":
        await deletion.finish_section(db, attachments, node)
    else:
        await revisions.settle(db, node)
