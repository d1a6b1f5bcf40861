"""Deletes nodes of the site.

A section is marked `deleting` before its children are looked up: see `creation`. Other nodes are removed by one write
that is guarded by the nonce. What belongs to a node is removed after it, so that nobody sees a node without its
revisions. An intent is announced before, so that a job can finish the deletion after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId

from portico.resolvers.attachments import Attachments, Host
from portico.resolvers.content.refusals import SectionNotEmpty
from portico.resolvers.documents import Database
from portico.resolvers.errors import NotFound
from portico.resolvers.writes import idempotency, intents
from portico.resolvers.writes.retries import settling
from portico.resolvers.writes.sweeps import each

from . import photos, revisions
from .edits import SETTLED, edit_conflict
from .nodes import KIND, NODES, SECTION, Change, NodeDocument, find_by_ids, find_by_paths, parse_path

# The kind of a deletion's intent; its keys are the ids of nodes.
DELETION = "content-deletion"


async def delete_content(
    db: Database, attachments: Attachments, *, node_id: ObjectId, nonce: str, now: datetime, operation_id: str
) -> ObjectId | None:
    """Deletes the node that the caller read with this nonce, and everything that belongs to it.

    Returns:  its parent.
    Raises:   NotFound, EditConflict, SectionNotEmpty, PhotoLocked.
    Writes:   an intent; then cms.nodes: for a section, a mark, then the removal of the section, or of the mark if it
              has children; for other nodes, one nonce-guarded removal. Then what belongs to the node: cms.revisions,
              cms.assets.chunks and .files, and its attachments.
    """
    earlier = await idempotency.notes(db, operation_id)
    async for _ in settling():
        node = (await find_by_ids(db, [node_id])).get(node_id)
        if node is None:
            if not earlier.get("deleting"):
                raise NotFound(KIND, str(node_id))
            await finish_removal(db, attachments, [node_id], operation_id, now=now)
            noted = earlier["deleting"]
            # An earlier version has noted no parent, but True.
            parent_id: ObjectId | None = noted["parent"] if isinstance(noted, dict) else None
            return parent_id
        is_mine = node.get("deleting", {}).get("op") == operation_id
        if not is_mine and node["nonce"] != nonce:
            raise await edit_conflict(db, node, nonce, None)
        await photos.require_unlocked(db, node, now=now)
        if is_mine or not ("pending" in node or "deleting" in node):
            remove = _delete_section if node["type"] == SECTION else _delete_leaf
            if await remove(db, attachments, node, now, operation_id):
                return node["parent"]
    raise NotFound(KIND, str(node_id))


async def _delete_section(
    db: Database, attachments: Attachments, node: NodeDocument, now: datetime, operation_id: str
) -> bool:
    if "deleting" not in node:
        guard = {"_id": node["_id"], "parent": node["parent"], "nonce": node["nonce"], **SETTLED}
        mark: Change = {"op": operation_id, "at": now}
        if not (await db[NODES.name].update_one(guard, {"$set": {"deleting": mark}})).matched_count:
            return False
        node = {**node, "deleting": mark}
    await finish_section(db, attachments, node)
    return True


async def finish_section(db: Database, attachments: Attachments, section: NodeDocument) -> None:
    """Deletes a section that is marked `deleting`, or clears its mark. May be repeated. Raises SectionNotEmpty."""
    nodes = db[NODES.name]
    operation_id = section["deleting"]["op"]
    mine = {"_id": section["_id"], "parent": section["parent"], "deleting.op": operation_id}
    if await nodes.find_one({"parent": section["_id"]}, {"_id": 1}) is not None:
        await nodes.update_one(mine, {"$unset": {"deleting": ""}})
        raise SectionNotEmpty
    await idempotency.note(db, operation_id, deleting={"parent": section["parent"]})
    now = section["deleting"]["at"]
    await intents.announce(db, operation_id, kind=DELETION, keys=[str(section["_id"])], now=now)
    await nodes.delete_one(mine)
    if await finish_removal(db, attachments, [section["_id"]], operation_id, now=now):
        # A job has cleared the mark in the meantime, because it found children.
        raise SectionNotEmpty


async def _delete_leaf(
    db: Database, attachments: Attachments, node: NodeDocument, now: datetime, operation_id: str
) -> bool:
    await intents.announce(db, operation_id, kind=DELETION, keys=[str(node["_id"])], now=now)
    await idempotency.note(db, operation_id, deleting={"parent": node["parent"]})
    guard = {"_id": node["_id"], "parent": node["parent"], "nonce": node["nonce"], **SETTLED, **photos.UNLOCKED}
    if (await db[NODES.name].delete_one(guard)).deleted_count:
        await finish_removal(db, attachments, [node["_id"]], operation_id, now=now)
        return True
    # If the node is gone, an earlier call of the operation may have deleted it, and rely on both.
    if await find_by_ids(db, [node["_id"]], {"_id": 1}):
        await idempotency.note(db, operation_id, deleting=None)
        await intents.withdraw(db, operation_id)
    return False


async def finish_removal(
    db: Database, attachments: Attachments, ids: list[ObjectId], operation_id: str, *, now: datetime
) -> list[ObjectId]:
    """Removes everything that belongs to the nodes that are gone, and withdraws the intent. May be repeated.

    Returns:  the ids of the nodes that still exist.
    """
    there = await remove_parts(db, ids, now=now)

    async def drop(node_id: ObjectId) -> int:
        await attachments.drop(db, Attachments.Target(KIND, str(node_id), node_id), by=operation_id, now=now)
        return 1

    await each([node_id for node_id in ids if node_id not in there], drop)
    await intents.withdraw(db, operation_id)
    return there


async def remove_parts(db: Database, ids: list[ObjectId], *, now: datetime) -> list[ObjectId]:
    """Removes the texts and bytes of the nodes that are gone. Returns the ids of the others. May be repeated."""
    there = await find_by_ids(db, ids, {"_id": 1})

    async def remove(node_id: ObjectId) -> int:
        await revisions.delete_revisions(db, node_id)
        await photos.delete_bytes(db, node_id, now=now)
        return 1

    await each([node_id for node_id in ids if node_id not in there], remove)
    return list(there)


async def _find_hosts(db: Database, keys: Sequence[str]) -> dict[str, NodeDocument]:
    found = await find_by_ids(db, [ObjectId(key) for key in keys], {"_id": 1})
    return {str(node_id): node for node_id, node in found.items()}


async def _find_named(db: Database, path: str) -> tuple[str, ObjectId] | None:
    way = parse_path(path)
    node = None if way is None else (await find_by_paths(db, [way])).get(way)
    return None if node is None else (str(node["_id"]), node["_id"])


async def _being_deleted(db: Database) -> set[str]:
    return await intents.announced(db, kind=DELETION)


async def _find_authors(db: Database, keys: Sequence[str]) -> dict[str, str]:
    found = await find_by_ids(db, [ObjectId(key) for key in keys], {"author.id": 1})
    return {str(node_id): node["author"]["id"] for node_id, node in found.items()}


HOST = Host(KIND, _find_hosts, _find_named, _being_deleted, _find_authors)
