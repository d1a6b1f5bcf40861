"""Uploads that are cut off, and what meets them: the old picture stays, and no bytes without a photo are left.

The kit has the crashes and pauses of each call.
"""

from __future__ import annotations

import contextlib
from functools import partial

import pytest
from starlette.types import Message

from portico.gateway.mongo.faults import Crash
from portico.resolvers.content import assets, photo_jobs, photos
from tests.content.support.photo_scene import NEW, OLD, Photos
from tests.content.support.photos import sha256, stored, upload_body
from tests.content.support.site import own
from tests.support.harness import GatewayClient, SettableClock
from tests.support.ids import key_in
from tests.support.moments import meanwhile
from tests.support.multipart import CONTENT_TYPE, PREFLIGHT, messages, pieces_of

# The checksum of the bytes that a reader finds at the photo's path before an upload.
BEFORE = {"uploadPhoto": None, "replacePhoto": sha256(OLD)}


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch) -> Photos:
    for (module, constant), value in Photos.constants.items():
        monkeypatch.setattr(module, constant, value)
    return Photos(gateway, clock)


# The number of changes after which an upload has left something for the jobs.
UNFINISHED = 4
# The first command that writes bytes. A successful upload updates a file only to settle it.
WRITING = assets.CHUNKS.name, "insert_many"
SETTLING = assets.FILES.name, "update_one"


async def test_late_chunks_of_an_abandoned_file_are_deleted(scene: Photos) -> None:
    """A server may still carry out a command of a process that was killed."""
    db = scene.gateway.db
    scene = scene.trying("uploadPhoto")
    given = await scene.set("uploadPhoto")
    assert await scene.crash("uploadPhoto", given, UNFINISHED)
    await scene.run_jobs(seconds=31)
    removed = await db[assets.FILES.name].find_one({})
    assert removed is not None
    assert "removed" in removed["metadata"]

    for late in (6, 60, 3_600):
        await db[assets.CHUNKS.name].insert_one({"files_id": removed["_id"], "n": 0, "data": NEW})
        await scene.run_jobs(seconds=late)
        await scene.run_jobs(seconds=late + 10)
        assert await db[assets.CHUNKS.name].count_documents({}) == 0, late
        assert await db[assets.FILES.name].count_documents({}) == 1

    await scene.run_jobs(seconds=24 * 3600)
    assert await db[assets.FILES.name].count_documents({}) == 0


async def cut_off(gateway: GatewayClient, body: bytes) -> None:
    """Send the beginning of a request to the gateway, and disconnect."""
    app = gateway.http._transport.app  # type: ignore[attr-defined]
    headers = {"content-type": CONTENT_TYPE, "authorization": f"Bearer {gateway.token()}", **PREFLIGHT}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/graphql",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "state": {},
        "app": app,
    }

    async def send(_message: Message) -> None:
        """Drop the message: the client has disconnected."""

    await app(scope, messages(*pieces_of(body, 300), is_cut=True), send)


@pytest.mark.parametrize("mutation", ["uploadPhoto", "replacePhoto"])
async def test_an_upload_that_is_cut_off_anywhere_changes_nothing(scene: Photos, mutation: str) -> None:
    scene = scene.trying(mutation)
    given = await scene.set(mutation)
    body = upload_body(mutation, {**given, "idempotencyKey": None}, NEW)
    begin = body.index(NEW[:100])
    cuts = [0, 100, begin - 10, begin, begin + 1, *range(begin, len(body) - 60, assets.CHUNK_BYTES), len(body) - 60]
    for cut in cuts:
        await cut_off(scene.gateway, body[:cut])

        assert await scene.state() == BEFORE[mutation], cut
        assert await scene.shown() is None or mutation == "replacePhoto", cut
        assert await stored(scene.gateway.db) == ((0, 0) if mutation == "uploadPhoto" else (1, 1)), cut
        await scene.assert_settled()
    assert await scene.outcome(mutation, given) == "PhotoPayload"
    await scene.run_jobs(seconds=61)
    await scene.assert_settled()


async def test_a_photo_with_an_upload_in_flight_is_not_deleted(scene: Photos) -> None:
    given = await scene.set("replacePhoto")

    with meanwhile(scene.gateway, partial(scene.delete, given), *WRITING) as outcome:
        replaced = await scene.outcome("replacePhoto", given)

    assert (outcome, replaced) == (["PhotoLocked"], "PhotoPayload")
    await scene.run_jobs(seconds=61)
    await scene.assert_settled()


@pytest.mark.sample(3)
@pytest.mark.parametrize("skip", range(12))
async def test_a_photo_is_either_replaced_or_deleted(scene: Photos, skip: int) -> None:
    given = await scene.set("replacePhoto")

    with meanwhile(scene.gateway, partial(scene.delete, given), skip=skip) as outcome:
        replaced = await scene.outcome("replacePhoto", given)

    assert (*outcome, replaced) in {
        ("PhotoLocked", "PhotoPayload"),
        ("EditConflict", "PhotoPayload"),
        ("DeletedPayload", "NotFound"),
    }
    assert await scene.state() == (None if outcome == ["DeletedPayload"] else sha256(NEW))
    await scene.run_jobs(seconds=61)
    await scene.assert_settled()


@pytest.mark.parametrize("by", ["uploadPhoto", "replacePhoto", "the jobs"])
async def test_a_photo_that_is_deleted_just_before_its_file_is_settled_leaves_nothing(scene: Photos, by: str) -> None:
    scene = scene.trying(mutation := "replacePhoto" if by == "replacePhoto" else "uploadPhoto")
    given = await scene.set(mutation)

    async def delete() -> str:
        return await scene.delete(await scene.shown())

    async def stop() -> str:
        raise Crash

    with meanwhile(scene.gateway, stop if by == "the jobs" else delete, *SETTLING) as deleted:
        outcome = await scene.outcome(mutation, given)
    scene.clock.advance(seconds=31)
    if by == "the jobs":
        with meanwhile(scene.gateway, delete, *SETTLING) as deleted:
            assert await photo_jobs.finish_uploads(scene.gateway.db, now=scene.clock.now()) == 0

    assert (outcome, deleted) == ("INTERNAL" if by == "the jobs" else "PhotoPayload", ["DeletedPayload"])
    await scene.run_jobs(seconds=70)
    assert await scene.state() is None
    await scene.assert_settled()
    await scene.run_jobs(seconds=2 * 24 * 3600)
    assert await scene.gateway.db["cms.assets.files"].count_documents({}) == 0


@pytest.mark.parametrize("is_whole", [True, False], ids=["complete", "in flight"])
async def test_a_photo_that_is_uploaded_again_while_the_jobs_delete_its_first_upload_keeps_its_bytes(
    scene: Photos, *, is_whole: bool
) -> None:
    """A retry creates a node with the same id, once the first upload was given up."""
    scene = scene.trying("uploadPhoto")
    given = await scene.set("uploadPhoto")
    db = scene.gateway.db
    assert await scene.crash("uploadPhoto", given, UNFINISHED)
    node = await db["cms.nodes"].find_one({"type": "photo"})
    assert node is not None
    scene.clock.advance(seconds=31)
    assert await photos.abort_upload(db, node, now=scene.clock.now())

    async def forget() -> None:
        await photos.delete_bytes(db, node["_id"], now=scene.clock.now())

    with contextlib.nullcontext() if is_whole else meanwhile(scene.gateway, forget, *SETTLING):
        assert await scene.outcome("uploadPhoto", given) == "PhotoPayload"
    await forget()
    assert await scene.state() == sha256(NEW)
    await scene.run_jobs(seconds=70)

    assert await scene.state() == sha256(NEW)
    await scene.assert_settled()


async def test_a_deleted_photo_leaves_nothing(scene: Photos) -> None:
    given = await scene.set("replacePhoto")
    photo = await scene.shown()
    for width in (80, 160):
        assert (await scene.gateway.http.get(f"{photo['url']}?width={width}")).status_code == 200
    assert await scene.outcome("replacePhoto", given) == "PhotoPayload"
    now = await scene.shown()
    assert (await scene.gateway.http.get(f"{now['url']}?width=80")).status_code == 200
    # The files are the new bytes, the old ones, and the thumbnails of both: a picture of 40 pixels has one thumbnail.
    assert (await stored(scene.gateway.db))[0] == 4

    assert await scene.delete(now) == "DeletedPayload"

    assert await stored(scene.gateway.db) == (0, 0)
    assert (await scene.gateway.http.get(now["url"])).status_code == 404
    await scene.assert_settled()


async def test_a_title_that_is_edited_during_an_upload_is_kept(scene: Photos) -> None:
    given = await scene.set("replacePhoto")
    edit = partial(scene.gateway.result, "editMetadata", own(given, title="Other"))

    with meanwhile(scene.gateway, edit, *WRITING) as edited:
        assert await scene.outcome("replacePhoto", given) == "PhotoPayload"

    assert [one["__typename"] for one in edited] == ["ContentPayload"]
    node = await scene.gateway.stored("cms.nodes", {"_id": key_in("ContentNode", given["id"])})
    assert (node["title"], node["detail"]["checksum"], node["revision"]) == ("Other", sha256(NEW), 3)
    await scene.run_jobs(seconds=61)
    await scene.assert_settled()
