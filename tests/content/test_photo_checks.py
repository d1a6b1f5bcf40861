"""The problems of photos and their bytes that `portico doctor` reports, and the repairs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bson import Int64, ObjectId

from portico.resolvers.documents import Database
from portico.resolvers.problems import Problem
from tests.content.support.photos import PicturesHere, bytes_of, create_gallery, create_photo, noise_of, use_pictures
from tests.support.domains import INVARIANTS
from tests.support.harness import GatewayClient, SettableClock, assert_invariants
from tests.support.ids import key_in

FILES, CHUNKS, NODES = "cms.assets.files", "cms.assets.chunks", "cms.nodes"
STRAY = ObjectId("0" * 24)


async def problems(gateway: GatewayClient) -> list[Problem]:
    return [problem for invariant in INVARIANTS async for problem in invariant.check(gateway.db)]


@pytest.fixture
async def photo(gateway: GatewayClient) -> dict[str, Any]:
    use_pictures(gateway, PicturesHere())
    made = await create_photo(gateway, await create_gallery(gateway), noise_of(60, 60))
    assert (await gateway.http.get(made["url"], params={"width": "80"})).status_code == 200
    return made


async def _no_file(db: Database, file: Any) -> None:
    await db[FILES].delete_one({"_id": file})


async def _no_chunk(db: Database, file: Any) -> None:
    await db[CHUNKS].delete_one({"files_id": file})


async def _short_chunk(db: Database, file: Any) -> None:
    await db[CHUNKS].update_one({"files_id": file, "n": 0}, {"$set": {"data": b"short"}})


async def _other_bytes(db: Database, file: Any) -> None:
    chunk = await db[CHUNKS].find_one({"files_id": file, "n": 0})
    assert chunk is not None
    other = bytes([chunk["data"][0] ^ 1]) + chunk["data"][1:]
    await db[CHUNKS].update_one({"_id": chunk["_id"]}, {"$set": {"data": other}})


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (_no_file, "its file is missing"),
        (_no_chunk, "some of its bytes are missing"),
        (_short_chunk, "its bytes do not match its checksum"),
        (_other_bytes, "its bytes do not match its checksum"),
    ],
)
async def test_missing_or_wrong_bytes_of_a_photo_are_reported(
    gateway: GatewayClient, photo: dict[str, Any], spoil: Callable[[Database, Any], Awaitable[None]], text: str
) -> None:
    key = key_in("ContentNode", photo["id"])
    node = await gateway.stored(NODES, {"_id": key})

    await spoil(gateway.db, node["detail"]["file"])

    found = {problem.text: problem for problem in await problems(gateway)}
    assert found[text].subject == f"photo {key} (a-photo)"
    assert found[text].repair is None


async def _stray_file(db: Database, node: Any) -> None:
    await db[FILES].insert_one({"_id": STRAY, "length": Int64(1), "chunkSize": 10, "metadata": {"node": node["_id"]}})


async def _file_of_nobody(db: Database, _node: Any) -> None:
    await db[FILES].insert_one({"_id": STRAY, "length": Int64(1), "chunkSize": 10})


async def _stray_thumbnail(db: Database, node: Any) -> None:
    facts = {"node": node["_id"], "of": node["detail"]["file"], "width": 81}
    await db[FILES].insert_one({"_id": STRAY, "length": Int64(1), "chunkSize": 10, "metadata": facts})


async def _stray_chunks(db: Database, _node: Any) -> None:
    await db[CHUNKS].insert_many([{"files_id": STRAY, "n": n, "data": b"x"} for n in range(3)])


@pytest.mark.parametrize(
    ("leave", "text"),
    [
        (_stray_file, "no photo uses it"),
        (_file_of_nobody, "no photo uses it"),
        (_stray_thumbnail, "no photo uses it"),
        (_stray_chunks, "it has chunks, but does not exist"),
    ],
)
async def test_bytes_without_a_photo_are_reported_and_deleted(
    gateway: GatewayClient, photo: dict[str, Any], leave: Callable[[Database, Any], Awaitable[None]], text: str
) -> None:
    node = await gateway.db[NODES].find_one({"_id": key_in("ContentNode", photo["id"])})
    await leave(gateway.db, node)

    found = await problems(gateway)
    for problem in found:
        assert problem.repair is not None
        await problem.repair()

    assert [(problem.subject, problem.text) for problem in found] == [(f"file {STRAY}", text)]
    await assert_invariants(gateway)
    assert await bytes_of(gateway, photo) == noise_of(60, 60)


async def test_uploads_in_flight_are_not_reported(gateway: GatewayClient, clock: SettableClock) -> None:
    upload = {"op": "r-1", "file": STRAY, "until": clock.now()}
    gallery = await create_gallery(gateway)
    at = {"parent": key_in("ContentNode", gallery["id"])}
    photo = await create_photo(gateway, gallery)
    await gateway.db[NODES].update_one(
        {"_id": key_in("ContentNode", photo["id"]), **at}, {"$set": {"detail.upload": upload}}
    )
    facts = {"node": key_in("ContentNode", photo["id"]), "unsettled": clock.now()}
    await gateway.db[FILES].insert_one({"_id": STRAY, "length": Int64(0), "chunkSize": 10, "metadata": facts})
    await gateway.db[CHUNKS].insert_one({"files_id": STRAY, "n": 0, "data": b"x"})

    await assert_invariants(gateway)
