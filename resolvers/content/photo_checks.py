"""Checks that every photo has its bytes, and that every file belongs to a photo."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem

from . import assets, photos, thumbnails
from .assets import CHUNKS, FILES, FileDocument
from .nodes import NODES, PHOTO, Detail, NodeDocument

_FILE = Problem.named("file")


async def find_broken_photos(db: Database) -> AsyncIterator[Problem]:
    """Finds photos whose bytes are missing or do not match their checksum.

    Reads all bytes of all photos, in small parts.
    """
    whole = {"type": PHOTO, "detail.file": {"$ne": None}}
    found = NODES.of(db).find(whole, {"slug": 1, "detail": 1})
    async for problem in Problem.all_in(found, partial(_broken, db), _photo, 1):
        yield problem


def _photo(node: Mapping[str, Any]) -> str:
    return f"photo {node['_id']} ({node.get('slug')})"


async def _broken(db: Database, nodes: list[NodeDocument]) -> AsyncIterator[Problem]:
    for node in nodes:
        problem = await _problem_of(db, node["detail"])
        if problem is not None:
            yield Problem(_photo(node), problem)


async def _problem_of(db: Database, detail: Detail) -> str | None:
    file = None if detail["file"] is None else await assets.find_file(db, detail["file"])
    if file is None or "removed" in file["metadata"]:
        return "its file is missing"
    digest = hashlib.sha256()
    try:
        async for piece in assets.read_bytes(db, file, 0, detail["length"]):
            digest.update(piece)
    except assets.BytesMissing:
        return "some of its bytes are missing"
    return None if digest.hexdigest() == detail["checksum"] else "its bytes do not match its checksum"


async def find_stray_files(db: Database) -> AsyncIterator[Problem]:
    """Finds files without a photo, and chunks without a file."""
    settled = {"metadata.unsettled": None, "metadata.removed": None}
    async for problem in Problem.all_in(FILES.of(db).find(settled, {"metadata": 1}), partial(_unused, db), _FILE, 1):
        yield problem
    async for file_id in _ids_of_chunks(db):
        if not await _exists(db, FILES.name, {"_id": file_id}) and await _exists(
            db, CHUNKS.name, {"files_id": file_id}
        ):
            yield _stray(db, file_id, "it has chunks, but does not exist")


async def _unused(db: Database, files: list[FileDocument]) -> AsyncIterator[Problem]:
    for file in files:
        if not await _is_used(db, file):
            yield _stray(db, file["_id"], "no photo uses it")


def _stray(db: Database, file_id: ObjectId, text: str) -> Problem:
    return Problem(_FILE({"_id": file_id}), text, partial(_mend_stray, db, file_id))


async def _exists(db: Database, collection: str, query: Document) -> bool:
    return await db[collection].find_one(query, {"_id": 1}) is not None


async def _is_used(db: Database, file: FileDocument) -> bool:
    facts = file.get("metadata") or {}
    node = await NODES.of(db).find_one({"_id": facts.get("node")}, {"detail": 1})
    if node is None:
        return False
    original = facts.get("of", file["_id"])
    return original in photos.files_of(node) and (
        "of" not in facts or file["_id"] in thumbnails.thumbnail_ids(original)
    )


async def _ids_of_chunks(db: Database) -> AsyncIterator[ObjectId]:
    """Yields the ids of files that have chunks, in the order of an index."""
    previous = None
    keys = CHUNKS.of(db).find({}, {"_id": 0, "files_id": 1}, sort=[("files_id", ASCENDING), ("n", ASCENDING)])
    async for chunk in keys:
        if chunk["files_id"] != previous:
            previous = chunk["files_id"]
            yield previous


async def _mend_stray(db: Database, file_id: ObjectId) -> None:
    """Deletes the file, unless a photo uses it by now."""
    file = await assets.find_file(db, file_id)
    if file is None or not await _is_used(db, file):
        await assets.delete_files(db, [file_id])
