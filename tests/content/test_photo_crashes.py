"""Uploads that are cut off, crash or pause anywhere: the old picture stays, and no bytes without a photo are left."""

from __future__ import annotations

import pytest
from starlette.types import Message

from portico.gateway.mongo.faults import Crash
from portico.resolvers.content import assets, photo_jobs, photos
from tests.content.support.photo_scene import NEW, OLD, PHOTO_JOBS, SEEN, Given, Scene
from tests.content.support.photos import (
    PicturesHere,
    sha256,
    stored,
    upload_body,
    use_pictures,
)
from tests.support.harness import GatewayClient, SettableClock, half_of_stops, run_jobs, stops
from tests.support.ids import key_in
from tests.support.interruptions import crashing, database_of, interrupted
from tests.support.multipart import CONTENT_TYPE, PREFLIGHT, messages, pieces_of

OPERATIONS = ("uploadPhoto", "replacePhoto", "deleteContent")
# The checksum of the bytes that a reader finds at the photo's path before and after an operation.
BEFORE = {"uploadPhoto": None, "replacePhoto": sha256(OLD), "deleteContent": sha256(OLD)}
AFTER = {"uploadPhoto": sha256(NEW), "replacePhoto": sha256(NEW), "deleteContent": None}


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(assets, "CHUNK_BYTES", 1_000)
    monkeypatch.setattr(assets, "CHUNKS_AT_ONCE", 1)
    use_pictures(gateway, PicturesHere())
    return Scene(gateway, clock)


# The number of changes after which a call has left something for the jobs.
UNFINISHED = {"uploadPhoto": 4, "replacePhoto": 7, "deleteContent": 3}
DONE = {"uploadPhoto": "PhotoPayload", "replacePhoto": "PhotoPayload", "deleteContent": "DeletedPayload"}


@pytest.mark.parametrize("jobs_first", [True, False], ids=["after the jobs", "before the jobs"])
@pytest.mark.parametrize("mutation", OPERATIONS)
async def test_a_write_that_crashes_anywhere_is_finished_or_undone_and_its_retry_succeeds(
    scene: Scene, mutation: str, *, jobs_first: bool
) -> None:
    for stop in stops():
        given = await scene.set(mutation)
        with crashing(scene.gateway, stop) as faulty:
            await scene.ask(mutation, given)
        if not faulty.has_crashed:
            break
        assert await scene.seen() in (BEFORE[mutation], AFTER[mutation])

        # The lock of the upload and the lease of its key expire after 30 seconds.
        scene.clock.advance(seconds=31)
        if jobs_first:
            await scene.later(70)
            assert await scene.seen() in (BEFORE[mutation], AFTER[mutation]), stop
            await scene.assert_settled()
        again = [await scene.ask(mutation, given) for _ in range(2)]
        await scene.later(70)

        assert again == [DONE[mutation]] * 2, stop
        assert await scene.seen() == AFTER[mutation], stop
        await scene.assert_settled()
    assert stop > 5


@pytest.mark.parametrize("is_repeated", [True, False], ids=["with a retry", "without a retry"])
@pytest.mark.parametrize("mutation", OPERATIONS)
async def test_a_write_that_pauses_anywhere_while_the_jobs_give_it_up_leaves_nothing_unfinished(
    scene: Scene, mutation: str, *, is_repeated: bool
) -> None:
    db = scene.gateway.db
    for skip in half_of_stops(odd=is_repeated):
        given = await scene.set(mutation)
        meanwhile: list[str] = []

        async def others(given: Given = given, outcome: list[str] = meanwhile) -> None:
            with database_of(scene.gateway, db):
                await scene.later(101)
                outcome.append(await scene.ask(mutation, given) if is_repeated else "nobody")
                await scene.later(101)

        with database_of(scene.gateway, interrupted(db, None, None, others, skip=skip)):
            outcome = await scene.ask(mutation, given)
        await scene.later(101)

        if not meanwhile:
            break
        assert outcome in {DONE[mutation], "Conflict", "CONFLICT"}, skip
        assert meanwhile == [DONE[mutation] if is_repeated else "nobody"], skip
        is_done = DONE[mutation] in {outcome, *meanwhile}
        assert await scene.seen() == (AFTER if is_done else BEFORE)[mutation], skip
        await scene.assert_settled()
        scene.clock.advance(days=2)
        await scene.later(1)
        assert await db["cms.assets.files"].count_documents({}) == (await scene.seen() is not None), skip
    assert skip > 5


@pytest.mark.parametrize("mutation", ["uploadPhoto", "replacePhoto", "deleteContent"])
async def test_jobs_that_crash_anywhere_finish_in_their_next_run(scene: Scene, mutation: str) -> None:
    for stop in stops():
        given = await scene.set(mutation)
        with crashing(scene.gateway, UNFINISHED[mutation]) as faulty:
            await scene.ask(mutation, given)
        assert faulty.has_crashed
        scene.clock.advance(seconds=101)

        with crashing(scene.gateway, stop) as faulty:
            try:
                await run_jobs(scene.gateway, scene.clock, *PHOTO_JOBS)
            except Crash:
                assert faulty.has_crashed
        await scene.later(101)

        assert await scene.seen() in (BEFORE[mutation], AFTER[mutation]), stop
        await scene.assert_settled()
        if not faulty.has_crashed:
            break
    assert stop > 1


async def test_late_chunks_of_an_abandoned_file_are_deleted(scene: Scene) -> None:
    """A server may still carry out a command of a process that was killed."""
    db = scene.gateway.db
    given = await scene.set("uploadPhoto")
    with crashing(scene.gateway, UNFINISHED["uploadPhoto"]) as faulty:
        await scene.ask("uploadPhoto", given)
    assert faulty.has_crashed
    await scene.later(31)
    removed = await db[assets.FILES.name].find_one({})
    assert removed is not None
    assert "removed" in removed["metadata"]

    for late in (6, 60, 3_600):
        await db[assets.CHUNKS.name].insert_one({"files_id": removed["_id"], "n": 0, "data": NEW})
        await scene.later(late)
        await scene.later(late + 10)
        assert await db[assets.CHUNKS.name].count_documents({}) == 0, late
        assert await db[assets.FILES.name].count_documents({}) == 1

    await scene.later(24 * 3600)
    assert await db[assets.FILES.name].count_documents({}) == 0


# Clients that disconnect


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
async def test_an_upload_that_is_cut_off_anywhere_changes_nothing(scene: Scene, mutation: str) -> None:
    given = await scene.set(mutation)
    body = upload_body(mutation, {**given, "idempotencyKey": None}, NEW)
    begin = body.index(NEW[:100])
    cuts = [0, 100, begin - 10, begin, begin + 1, *range(begin, len(body) - 60, assets.CHUNK_BYTES), len(body) - 60]
    for cut in cuts:
        await cut_off(scene.gateway, body[:cut])

        assert await scene.seen() == BEFORE[mutation], cut
        assert (await scene.gateway.data(SEEN))["content"] is None or mutation == "replacePhoto", cut
        assert await stored(scene.gateway.db) == ((0, 0) if mutation == "uploadPhoto" else (1, 1)), cut
        await scene.assert_settled()
    assert await scene.ask(mutation, given) == "PhotoPayload"
    await scene.later(61)
    await scene.assert_settled()


# Operations during uploads


async def test_a_photo_with_an_upload_in_flight_is_not_deleted(scene: Scene) -> None:
    given = await scene.set("replacePhoto")
    outcome: list[str] = []

    async def others() -> None:
        with database_of(scene.gateway, db):
            outcome.append(await scene.ask("deleteContent", {"id": given["id"], "nonce": given["nonce"]}))

    db = scene.gateway.db
    with database_of(scene.gateway, interrupted(db, assets.CHUNKS.name, "insert_many", others)):
        replaced = await scene.ask("replacePhoto", given)

    assert (outcome, replaced) == (["PhotoLocked"], "PhotoPayload")
    await scene.later(61)
    await scene.assert_settled()


@pytest.mark.parametrize("skip", range(12))
async def test_a_photo_is_either_replaced_or_deleted(scene: Scene, skip: int) -> None:
    given = await scene.set("replacePhoto")
    outcome: list[str] = []
    db = scene.gateway.db

    async def others() -> None:
        with database_of(scene.gateway, db):
            outcome.append(await scene.ask("deleteContent", {"id": given["id"], "nonce": given["nonce"]}))

    with database_of(scene.gateway, interrupted(db, None, None, others, skip=skip)):
        replaced = await scene.ask("replacePhoto", given)

    assert (*outcome, replaced) in {
        ("PhotoLocked", "PhotoPayload"),
        ("EditConflict", "PhotoPayload"),
        ("DeletedPayload", "NotFound"),
    }
    assert await scene.seen() == (None if outcome == ["DeletedPayload"] else sha256(NEW))
    await scene.later(61)
    await scene.assert_settled()


@pytest.mark.parametrize("by", ["uploadPhoto", "replacePhoto", "the jobs"])
async def test_a_photo_that_is_deleted_just_before_its_file_is_settled_leaves_nothing(scene: Scene, by: str) -> None:
    given = await scene.set("replacePhoto" if by == "replacePhoto" else "uploadPhoto")
    db = scene.gateway.db
    outcome: list[str] = []

    async def delete() -> None:
        with database_of(scene.gateway, db):
            found = (await scene.gateway.data(SEEN))["content"]
            outcome.append(await scene.ask("deleteContent", {"id": found["id"], "nonce": found["nonce"]}))

    async def stop() -> None:
        raise Crash

    # A successful upload updates a file only to settle it.
    settling = interrupted(db, assets.FILES.name, "update_one", stop if by == "the jobs" else delete)
    with database_of(scene.gateway, settling):
        outcome.append(await scene.ask("uploadPhoto" if by == "the jobs" else by, given))
    scene.clock.advance(seconds=31)
    if by == "the jobs":
        settling = interrupted(db, assets.FILES.name, "update_one", delete)
        assert await photo_jobs.finish_uploads(settling, now=scene.clock.now()) == 0

    assert outcome == (["INTERNAL", "DeletedPayload"] if by == "the jobs" else ["DeletedPayload", "PhotoPayload"])
    await scene.later(70)
    assert await scene.seen() is None
    await scene.assert_settled()
    await scene.later(2 * 24 * 3600)
    assert await db["cms.assets.files"].count_documents({}) == 0


@pytest.mark.parametrize("is_whole", [True, False], ids=["complete", "in flight"])
async def test_a_photo_that_is_uploaded_again_while_the_jobs_delete_its_first_upload_keeps_its_bytes(
    scene: Scene, *, is_whole: bool
) -> None:
    """A retry creates a node with the same id, once the first upload was given up."""
    given = await scene.set("uploadPhoto")
    db = scene.gateway.db
    with crashing(scene.gateway, UNFINISHED["uploadPhoto"]) as faulty:
        await scene.ask("uploadPhoto", given)
    node = await db["cms.nodes"].find_one({"type": "photo"})
    assert node is not None
    assert faulty.has_crashed
    scene.clock.advance(seconds=31)
    assert await photos.abort_upload(db, node, now=scene.clock.now())

    async def forget() -> None:
        await photos.delete_bytes(db, node["_id"], now=scene.clock.now())

    with database_of(scene.gateway, db if is_whole else interrupted(db, assets.FILES.name, "update_one", forget)):
        assert await scene.ask("uploadPhoto", given) == "PhotoPayload"
    await forget()
    assert await scene.seen() == sha256(NEW)
    await scene.later(70)

    assert await scene.seen() == sha256(NEW)
    await scene.assert_settled()


async def test_a_deleted_photo_leaves_nothing(scene: Scene) -> None:
    given = await scene.set("replacePhoto")
    photo = (await scene.gateway.data(SEEN))["content"]
    for width in (80, 160):
        assert (await scene.gateway.http.get(f"{photo['url']}?width={width}")).status_code == 200
    assert await scene.ask("replacePhoto", given) == "PhotoPayload"
    now = (await scene.gateway.data(SEEN))["content"]
    assert (await scene.gateway.http.get(f"{now['url']}?width=80")).status_code == 200
    # The files are the new bytes, the old ones, and the thumbnails of both: a picture of 40 pixels has one thumbnail.
    assert (await stored(scene.gateway.db))[0] == 4

    assert await scene.ask("deleteContent", {"id": now["id"], "nonce": now["nonce"]}) == "DeletedPayload"

    assert await stored(scene.gateway.db) == (0, 0)
    assert (await scene.gateway.http.get(now["url"])).status_code == 404
    await scene.assert_settled()


async def test_a_title_that_is_edited_during_an_upload_is_kept(scene: Scene) -> None:
    given = await scene.set("replacePhoto")
    db = scene.gateway.db

    async def others() -> None:
        text = """mutation ($input: EditMetadataInput!) { editMetadata(input: $input) { __typename } }"""
        with database_of(scene.gateway, db):
            edited = await scene.gateway.data(
                text, {"input": {"id": given["id"], "nonce": given["nonce"], "title": "Other"}}
            )
        assert edited["editMetadata"]["__typename"] == "ContentPayload"

    with database_of(scene.gateway, interrupted(db, assets.CHUNKS.name, "insert_many", others)):
        assert await scene.ask("replacePhoto", given) == "PhotoPayload"

    node = await db["cms.nodes"].find_one({"_id": key_in("ContentNode", given["id"])})
    assert node is not None
    assert (node["title"], node["detail"]["checksum"], node["revision"]) == ("Other", sha256(NEW), 3)
    await scene.later(61)
    await scene.assert_settled()
