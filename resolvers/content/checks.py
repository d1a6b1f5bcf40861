"""Checks of the whole site: places, visibility and revisions. Repairs values that follow from others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING

from portico.resolvers.documents import Database, Document, in_batches
from portico.resolvers.errors import InvalidInput
from portico.resolvers.problems import Problem, problems_with

from . import revisions
from .nodes import NODES, PHOTO, WITH_TEXT, NodeDocument, find_by_ids, titled, visible_from
from .revisions import REVISIONS
from .rules import require_place

# Small, because the batches contain texts.
_BATCH = 50
_NAME = Problem.named("content", "slug")
_PLACE = {"type": 1, "ancestors": 1, "detail.kind": 1}
_BY_PLACE = [("parent", ASCENDING), ("slug", ASCENDING)]


async def find_wrong_nodes(db: Database) -> AsyncIterator[Problem]:
    """Finds nodes in wrong places, with duplicate paths, or with a wrong `visible_from` or wrong words."""
    before: tuple[Any, Any] | None = None
    async for batch in in_batches(NODES.of(db).find({}, {"detail.text": 0}).sort(_BY_PLACE), _BATCH):
        ids: list[Any] = list({node.get("parent") for node in batch} - {None})
        parents = await find_by_ids(db, ids or [ObjectId()], _PLACE)
        for node in batch:
            for problem in problems_with(node, partial(_wrong_in_place, db, before=before, parents=parents), _NAME):
                yield problem
            before = node.get("parent"), node.get("slug")


def _wrong_in_place(
    db: Database, node: NodeDocument, before: tuple[Any, Any] | None, parents: dict[ObjectId, NodeDocument]
) -> Iterator[Problem]:
    if (node["parent"], node["slug"]) == before:
        yield Problem(_NAME(node), "another node below the same parent has the same slug")
    for text, correct in _problems(node, None if node["parent"] is None else parents.get(node["parent"])):
        yield Problem(_NAME(node), text, None if correct is None else partial(_mend_node, db, node, correct))


def _problems(node: NodeDocument, parent: NodeDocument | None) -> list[tuple[str, Document | None]]:
    """Returns what is wrong, and what to set; None if the correct value is not known."""
    if node["parent"] is not None and parent is None:
        # It is being created below a section that was deleted. The creation is rolled back.
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
    # A photo is visible from the end of its first upload. No other field holds that time.
    is_right = (
        (node["visible_from"] is None) is (seen is None) if node["type"] == PHOTO else node["visible_from"] == seen
    )
    if not is_right:
        found.append(("its `visible_from` does not follow from its type and details", {"visible_from": seen}))
    if node.get("schema_version", 1) == NODES.version and {**node, **titled(node["title"])} != node:
        found.append(("its words are not those of its title", {**titled(node["title"])}))
    return found


async def _mend_node(db: Database, node: NodeDocument, correct: Document) -> None:
    """Sets the correct values, unless the node was edited since the check."""
    same = {name: node[name] for name in ("_id", "parent", "nonce")}
    await db[NODES.name].update_one(same, {"$set": correct})


async def find_wrong_revisions(db: Database) -> AsyncIterator[Problem]:
    """Finds texts that are not in the revisions, and revisions of nodes that do not exist."""
    async for problem in _missing_revisions(db):
        yield problem
    async for problem in _stray_revisions(db):
        yield problem


async def _missing_revisions(db: Database) -> AsyncIterator[Problem]:
    """Finds pages and entries whose current text is not in the revisions, and not marked `unrevised`.

    If the revision holds another text, it is not known which of the two is correct.
    """
    settled = {"type": {"$in": sorted(WITH_TEXT)}, "unrevised": None}
    found = NODES.of(db).find(settled).sort(_BY_PLACE)
    async for problem in Problem.all_in(found, partial(_unrevised, db), _NAME, _BATCH):
        yield problem


async def _unrevised(db: Database, nodes: list[NodeDocument]) -> AsyncIterator[Problem]:
    keys = {node["_id"]: f"{node['_id']}.{node['revision']}" for node in nodes}
    kept = await revisions.find_by_ids(db, list(keys.values()))
    for node in nodes:
        revision = kept.get(keys[node["_id"]])
        if revision is None or (revision["nonce"], revision["text"]) != (node["nonce"], node["detail"]["text"]):
            repair = partial(_mend_revision, db, node) if revision is None else None
            yield Problem(_NAME(node), "its current text is not in its revisions", repair)


async def _mend_revision(db: Database, node: NodeDocument) -> None:
    """Stores the current text of a page or entry as a revision. Its author is the author of the node."""
    unrevised: NodeDocument = {**node, "unrevised": {"at": node["updated"], "author": node["author"]}}
    await revisions.store_unrevised(db, unrevised)


async def _stray_revisions(db: Database) -> AsyncIterator[Problem]:
    """Finds revisions of nodes that do not exist."""
    by_node = REVISIONS.of(db).find({}, {"node": 1, "_id": 0}).sort([("node", ASCENDING), ("number", DESCENDING)])
    last: ObjectId | None = None
    async for batch in in_batches(by_node):
        ids = list(dict.fromkeys(revision["node"] for revision in batch if revision["node"] != last))
        last = batch[-1]["node"]
        there = await find_by_ids(db, ids or [ObjectId()], {"_id": 1})
        for node_id in ids:
            if node_id not in there:
                remove = partial(revisions.delete_revisions, db, node_id)
                yield Problem(f"revisions of {node_id}", "the node does not exist", remove)
