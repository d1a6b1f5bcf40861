"""Uploads that are retried with a key: one effect and one answer, if the file is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from portico.gateway.mongo.faults import Crash
from portico.resolvers.writes.operation_records import OPERATIONS
from portico.schema.kinds import Kind
from tests.content.support.photos import (
    PicturesHere,
    answer,
    create_gallery,
    create_photo,
    noise_of,
    photo_input,
    picture,
    result,
    stored,
    upload_body,
    use_pictures,
)
from tests.content.support.site import own
from tests.support.harness import GatewayClient, SettableClock, stops
from tests.support.interruptions import crashing, database_of, interrupted
from tests.support.pausing import Pause, failing

pytestmark = pytest.mark.usefixtures("sound")
Given = dict[str, Any]
DATA, OTHER = noise_of(30, 30), noise_of(30, 30, seed=2)


async def _upload(gateway: GatewayClient) -> tuple[Given, Given]:
    gallery = await create_gallery(gateway)
    return photo_input(gallery, idempotencyKey="key"), photo_input(gallery, slug="another", idempotencyKey="key")


async def _replace(gateway: GatewayClient) -> tuple[Given, Given]:
    gallery = await create_gallery(gateway)
    first, second = [await create_photo(gateway, gallery, slug=slug) for slug in ("one", "two")]
    return own(first, idempotencyKey="key"), own(second, idempotencyKey="key")


# Two inputs for each mutation, with one key.
CASES: dict[str, Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]] = {
    "uploadPhoto": _upload,
    "replacePhoto": _replace,
}


@pytest.fixture(autouse=True)
def _quick(gateway: GatewayClient) -> None:
    use_pictures(gateway, PicturesHere())


async def finished(gateway: GatewayClient) -> Any:
    """Returns the node of the photo whose bytes are complete; None if there is none."""
    return await gateway.db["cms.nodes"].find_one({"detail.length": len(DATA)})


@pytest.mark.parametrize("mutation", CASES)
async def test_a_key_has_one_effect_and_one_answer_and_belongs_to_one_file_and_one_input(
    gateway: GatewayClient, mutation: str
) -> None:
    given, other = await CASES[mutation](gateway)

    first = await result(gateway, mutation, given, DATA)
    after = await stored(gateway.db)
    again = [await result(gateway, mutation, given, DATA) for _ in range(2)]
    another_file = await answer(gateway, mutation, given, OTHER)
    another_input = await answer(gateway, mutation, other, DATA)

    assert first["__typename"] == "PhotoPayload"
    assert again == [first, first]
    assert another_file.codes == another_input.codes == ["IDEMPOTENCY_KEY_REUSED"]
    assert await stored(gateway.db) == after


@pytest.mark.parametrize("mutation", CASES)
async def test_concurrent_calls_with_one_key_have_one_effect_and_one_answer(
    gateway: GatewayClient, mutation: str
) -> None:
    given, _ = await CASES[mutation](gateway)

    answers = await asyncio.gather(*(result(gateway, mutation, given, DATA) for _ in range(8)))

    assert answers[0]["__typename"] == "PhotoPayload"
    assert answers == [answers[0]] * 8
    assert await gateway.db[OPERATIONS.name].count_documents({}) == 1
    await gateway.run_jobs(days=2)
    assert await gateway.db["cms.assets.files"].count_documents({}) == (1 if mutation == "uploadPhoto" else 2)


async def test_a_repeated_upload_is_not_refused_because_the_first_one_ends_meanwhile(gateway: GatewayClient) -> None:
    """The first call sleeps for longer than its lease. It goes on when the second one has taken over, and crashes."""
    given, _ = await _upload(gateway)
    pause, own_database = Pause(), gateway.db

    async def wake_the_sleeper() -> None:
        pause.go_on.set()
        await sleeper

    # It notes the file and the end of the upload, and then would store its outcome.
    crashing_last = interrupted(own_database, OPERATIONS.name, "update_one", failing(Crash), skip=2)
    with database_of(gateway, interrupted(crashing_last, "cms.nodes", "insert_one", pause)):
        sleeper = asyncio.create_task(answer(gateway, "uploadPhoto", given, DATA))
        await asyncio.wait_for(pause.reached.wait(), 30)
    gateway.clock.advance(seconds=31)
    # The first read of the record claims it.
    with database_of(gateway, interrupted(own_database, OPERATIONS.name, "find_one", wake_the_sleeper, skip=1)):
        second = await result(gateway, "uploadPhoto", given, DATA)

    assert (await sleeper).codes == ["INTERNAL"]
    assert second["__typename"] == "PhotoPayload"
    assert await result(gateway, "uploadPhoto", given, DATA) == second


@pytest.mark.parametrize("mutation", CASES)
async def test_a_finished_call_without_a_stored_answer_is_not_repeated_with_another_file(
    gateway: GatewayClient, clock: SettableClock, mutation: str
) -> None:
    given, _ = await CASES[mutation](gateway)
    for stop in stops():
        # A call that crashes just before it stores its outcome has already finished the photo.
        with crashing(gateway, stop) as faulty:
            await answer(gateway, mutation, given, DATA)
        clock.advance(seconds=61)
        if await finished(gateway) is not None or not faulty.has_crashed:
            break
        await gateway.run_jobs()
    assert faulty.has_crashed

    another = await answer(gateway, mutation, given, OTHER)
    same = await result(gateway, mutation, given, DATA)

    assert another.codes == ["IDEMPOTENCY_KEY_REUSED"]
    assert same["__typename"] == "PhotoPayload"


async def test_a_deleted_photo_is_not_uploaded_again_by_a_retry_of_its_upload(gateway: GatewayClient) -> None:
    given, _ = await _upload(gateway)
    whole = 0
    for stop in stops():
        with crashing(gateway, stop) as faulty:
            await answer(gateway, "uploadPhoto", given, DATA)
        if not faulty.has_crashed:
            break
        gateway.clock.advance(seconds=61)
        photo = await finished(gateway)
        if photo is None:
            await gateway.run_jobs()
            continue
        whole += 1
        deletion = {"id": Kind.encode_id("ContentNode", photo["_id"]), "nonce": photo["nonce"]}
        assert (await gateway.result("deleteContent", deletion))["__typename"] == "DeletedPayload"

        again = await result(gateway, "uploadPhoto", given, DATA)

        assert again["__typename"] == "NotFound", stop
        await gateway.db["operations"].delete_many({})
    assert whole > 1


async def test_an_upload_that_was_given_up_just_before_its_end_can_be_retried(gateway: GatewayClient) -> None:
    given, _ = await _upload(gateway)
    for stop in stops():
        with crashing(gateway, stop):
            await answer(gateway, "uploadPhoto", given, DATA)
        if await gateway.db["operations"].find_one({"notes.done": True}) is not None:
            break
        await gateway.run_jobs(seconds=61)
    assert await finished(gateway) is None
    await gateway.run_jobs(seconds=61)

    again = await result(gateway, "uploadPhoto", given, DATA)

    assert again["__typename"] == "PhotoPayload"


async def test_a_refused_call_is_refused_again(gateway: GatewayClient) -> None:
    given, _ = await _upload(gateway)

    refused = [await result(gateway, "uploadPhoto", given, b"No picture.") for _ in "12"]
    slug = {**given, "idempotencyKey": "other"}
    await create_photo(gateway, {"id": given["galleryId"]}, picture())
    taken = [await result(gateway, "uploadPhoto", slug, DATA) for _ in "12"]

    assert [found["__typename"] for found in refused] == ["UnacceptableFile"] * 2
    assert [found["__typename"] for found in taken] == ["SlugTaken"] * 2


async def test_a_call_whose_client_disconnected_can_be_retried(gateway: GatewayClient) -> None:
    given, _ = await _upload(gateway)
    too_short = await answer(gateway, "uploadPhoto", given, DATA, content=_half(given))

    again = await result(gateway, "uploadPhoto", given, DATA)

    assert too_short.codes == ["BAD_REQUEST"]
    assert again["__typename"] == "PhotoPayload"


async def _half(given: Given) -> Any:
    yield upload_body("uploadPhoto", given, DATA)[:-500]
