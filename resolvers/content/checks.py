"""Checks the whole site: places, who sees what, and the revisions; and mends what follows from something else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING

from portico.resolvers.documents import Database, Document, in_batches
from portico.resolvers.errors import InvalidInput
from portico.resolvers.writes.sweeps import wrong_in_batches, wrong_with

from . import revisions
from .nodes import NODES, PHOTO, WITH_TEXT, find_by_ids, visible_from
from .revisions import REVISIONS
from .rules import require_place

# Texts are read whole.
_BATCH = 50
_PLACE = {"type": 1, "ancestors": 1, "detail.kind": 1}
_BY_PLACE = [("parent", ASCENDING), ("slug", ASCENDING)]


async def find_wrong_nodes(db: Database) -> AsyncIterator[Document]:
    """The nodes that stand where they may not, whose path another has, or that do not say rightly who sees them.

    Yields {_id, parent, slug, nonce, problem, repair}; `repair` is what to set, None where nobody can know.
    """
    before: tuple[Any, Any] | None = None
    async for batch in in_batches(db[NODES.name].find({}, {"detail.text": 0}).sort(_BY_PLACE), _BATCH):
        ids: list[Any] = list({node.get("parent") for node in batch} - {None})
        parents = await find_by_ids(db, ids or [ObjectId()], _PLACE)
        for node in batch:
            for wrong in wrong_with(node, partial(_wrong_in_place, before=before, parents=parents)):
                yield wrong
            before = node.get("parent"), node.get("slug")


def _wrong_in_place(
    node: Document, before: tuple[Any, Any] | None, parents: dict[ObjectId, Document]
) -> Iterator[Document]:
    if (node["parent"], node["slug"]) == before:
        yield _wrong(node, "another node has its slug below the same parent")
    for problem, repair in _problems(node, parents.get(node["parent"])):
        yield _wrong(node, problem, repair)


def _wrong(node: Document, problem: str, repair: Document | None = None) -> Document:
    return {**{name: node[name] for name in ("_id", "parent", "slug", "nonce")}, "problem": problem, "repair": repair}


def _problems(node: Document, parent: Document | None) -> list[tuple[str, Document | None]]:
    if node["parent"] is not None and parent is None:
        # It is just being created below a section that was deleted, and is undone.
        return [] if "pending" in node else [("its parent does not exist", None)]
    found: list[tuple[str, Document | None]] = []
    try:
        require_place(node["type"], parent)
    except InvalidInput as error:
        found.append((f"it is in the wrong place: {error.message}", None))
    ancestors = [] if parent is None else [*parent["ancestors"], parent["_id"]]
    if node["ancestors"] != ancestors:
        found.append(("its ancestors are not those of its parent", {"ancestors": ancestors}))
    seen = visible_from(node["type"], node["detail"], node["created"])
    # A photo is seen from when its bytes were whole, which nothing else tells.
    is_right = (
        (node["visible_from"] is None) is (seen is None) if node["type"] == PHOTO else node["visible_from"] == seen
    )
    if not is_right:
        found.append(("it does not say rightly from when readers see it", {"visible_from": seen}))
    return found


async def mend_node(db: Database, wrong: Document) -> None:
    """Sets what `find_wrong_nodes` has found to be right, unless somebody has edited the node since."""
    same = {name: wrong[name] for name in ("_id", "parent", "nonce")}
    await db[NODES.name].update_one(same, {"$set": wrong["repair"]})


async def find_missing_revisions(db: Database) -> AsyncIterator[Document]:
    """The pages and entries whose present text is not in the revisions, nor about to be.

    Yields {_id, problem, node, is_missing}: where the revision is not missing it holds another text, and nobody can
    know which of the two is right.
    """
    settled = {"type": {"$in": sorted(WITH_TEXT)}, "unrevised": None}
    found = db[NODES.name].find(settled).sort(_BY_PLACE)
    async for wrong in wrong_in_batches(found, partial(_unrevised, db), _BATCH):
        yield wrong


async def _unrevised(db: Database, nodes: list[Document]) -> AsyncIterator[Document]:
    keys = {node["_id"]: f"{node['_id']}.{node['revision']}" for node in nodes}
    kept = await revisions.find_by_ids(db, list(keys.values()))
    for node in nodes:
        revision = kept.get(keys[node["_id"]])
        if revision is None or (revision["nonce"], revision["text"]) != (node["nonce"], node["detail"]["text"]):
            problem = "its text is not in its revisions"
            yield {"_id": node["_id"], "problem": problem, "node": node, "is_missing": revision is None}


async def mend_revision(db: Database, node: Document) -> None:
    """Keeps the present text of a page or entry; of who saved it is known no more than who created it."""
    facts = {"at": node["updated"], "author": node["author"]}
    await revisions.store_unrevised(db, {**node, "unrevised": facts})


async def find_stray_revisions(db: Database) -> AsyncIterator[ObjectId]:
    """The ids of nodes that have revisions and are gone."""
    by_node = db[REVISIONS.name].find({}, {"node": 1, "_id": 0}).sort([("node", ASCENDING), ("number", DESCENDING)])
    last: ObjectId | None = None
    async for batch in in_batches(by_node):
        ids = list(dict.fromkeys(revision["node"] for revision in batch if revision["node"] != last))
        last = batch[-1]["node"]
        there = await find_by_ids(db, ids or [ObjectId()], {"_id": 1})
        for node_id in ids:
            if node_id not in there:
                yield node_id
