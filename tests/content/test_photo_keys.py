"""Uploads that are retried with a key: one effect and one answer, if the file is the same."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

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
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs
from tests.support.interruptions import crashing

Given = dict[str, Any]
DATA, OTHER = noise_of(30, 30), noise_of(30, 30, seed=2)


async def _upload(gateway: GatewayClient) -> tuple[Given, Given]:
    gallery = await create_gallery(gateway)
    return photo_input(gallery), photo_input(gallery, slug="another")


async def _replace(gateway: GatewayClient) -> tuple[Given, Given]:
    gallery = await create_gallery(gateway)
    photos = [await create_photo(gateway, gallery, slug=slug) for slug in ("one", "two")]
    first, second = ({"id": photo["id"], "nonce": photo["nonce"]} for photo in photos)
    return first, second


CASES: dict[str, Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]] = {
    "uploadPhoto": _upload,
    "replacePhoto": _replace,
}


@pytest.fixture(autouse=True)
def _quick(gateway: GatewayClient) -> None:
    use_pictures(gateway, PicturesHere())


@pytest.mark.parametrize("mutation", CASES)
async def test_a_retry_with_the_same_key_and_file_has_one_effect_and_one_answer(
    gateway: GatewayClient, mutation: str
) -> None:
    given, _ = await CASES[mutation](gateway)

    first = await result(gateway, mutation, {**given, "idempotencyKey": "key"}, DATA)
    after = await stored(gateway.db)
    again = [await result(gateway, mutation, {**given, "idempotencyKey": "key"}, DATA) for _ in range(2)]

    assert first["__typename"] == "PhotoPayload"
    assert again == [first, first]
    assert await stored(gateway.db) == after
    await assert_invariants(gateway)


@pytest.mark.parametrize("mutation", CASES)
async def test_a_key_is_refused_for_another_file_or_input(gateway: GatewayClient, mutation: str) -> None:
    given, other = await CASES[mutation](gateway)
    await result(gateway, mutation, {**given, "idempotencyKey": "key"}, DATA)
    after = await stored(gateway.db)

    another_file = await answer(gateway, mutation, {**given, "idempotencyKey": "key"}, OTHER)
    another_input = await answer(gateway, mutation, {**other, "idempotencyKey": "key"}, DATA)

    assert another_file.codes == another_input.codes == ["IDEMPOTENCY_KEY_REUSED"]
    assert await stored(gateway.db) == after


@pytest.mark.parametrize("mutation", CASES)
async def test_concurrent_calls_with_one_key_have_one_effect_and_one_answer(
    gateway: GatewayClient, clock: SettableClock, mutation: str
) -> None:
    given, _ = await CASES[mutation](gateway)

    answers = await asyncio.gather(
        *(result(gateway, mutation, {**given, "idempotencyKey": "key"}, DATA) for _ in range(8))
    )

    assert answers[0]["__typename"] == "PhotoPayload"
    assert answers == [answers[0]] * 8
    assert await gateway.db[OPERATIONS.name].count_documents({}) == 1
    clock.advance(days=2)
    await run_jobs(gateway, clock)
    assert await gateway.db["cms.assets.files"].count_documents({}) == (1 if mutation == "uploadPhoto" else 2)
    await assert_invariants(gateway)


@pytest.mark.parametrize("mutation", CASES)
async def test_a_finished_call_without_a_stored_answer_is_not_repeated_with_another_file(
    gateway: GatewayClient, clock: SettableClock, mutation: str
) -> None:
    given, _ = await CASES[mutation](gateway)
    keyed = {**given, "idempotencyKey": "key"}
    stop = 0
    while True:
        # A call that crashes just before it stores its outcome has already finished the photo.
        with crashing(gateway, stop) as faulty:
            await answer(gateway, mutation, keyed, DATA)
        node = await gateway.db["cms.nodes"].find_one({"detail.length": len(DATA)})
        if node is not None or not faulty.has_crashed:
            break
        stop += 1
        clock.advance(seconds=61)
        await run_jobs(gateway, clock)
    assert faulty.has_crashed
    clock.advance(seconds=61)

    another = await answer(gateway, mutation, keyed, OTHER)
    same = await result(gateway, mutation, keyed, DATA)

    assert another.codes == ["IDEMPOTENCY_KEY_REUSED"]
    assert same["__typename"] == "PhotoPayload"


async def test_a_deleted_photo_is_not_uploaded_again_by_a_retry_of_its_upload(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    given, _ = await _upload(gateway)
    keyed = {**given, "idempotencyKey": "key"}
    whole = 0
    for stop in itertools.count():
        with crashing(gateway, stop) as faulty:
            await answer(gateway, "uploadPhoto", keyed, DATA)
        if not faulty.has_crashed:
            break
        clock.advance(seconds=61)
        photo = await gateway.db["cms.nodes"].find_one({"detail.length": len(DATA)})
        if photo is None:
            await run_jobs(gateway, clock)
            continue
        whole += 1
        gone = await gateway.result(
            "deleteContent", {"id": Kind.encode_id("ContentNode", photo["_id"]), "nonce": photo["nonce"]}
        )
        assert gone["__typename"] == "DeletedPayload"

        again = await result(gateway, "uploadPhoto", keyed, DATA)

        assert again["__typename"] == "NotFound", stop
        await gateway.db["operations"].delete_many({})
    assert whole > 1


async def test_an_upload_that_was_given_up_just_before_its_end_can_be_retried(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    given, _ = await _upload(gateway)
    keyed = {**given, "idempotencyKey": "key"}
    done = False
    for stop in itertools.count():
        with crashing(gateway, stop):
            await answer(gateway, "uploadPhoto", keyed, DATA)
        record = await gateway.db["operations"].find_one({})
        done = record is not None and record.get("notes", {}).get("done", False)
        if done:
            break
        clock.advance(seconds=61)
        await run_jobs(gateway, clock)
    assert await gateway.db["cms.nodes"].find_one({"detail.length": len(DATA)}) is None
    clock.advance(seconds=61)
    await run_jobs(gateway, clock)

    again = await result(gateway, "uploadPhoto", keyed, DATA)

    assert again["__typename"] == "PhotoPayload"


async def test_a_refused_call_is_refused_again(gateway: GatewayClient) -> None:
    given, _ = await _upload(gateway)

    refused = [await result(gateway, "uploadPhoto", {**given, "idempotencyKey": "key"}, b"No picture.") for _ in "12"]
    slug = {**given, "idempotencyKey": "other"}
    await create_photo(gateway, {"id": given["galleryId"]}, picture())
    taken = [await result(gateway, "uploadPhoto", slug, DATA) for _ in "12"]

    assert [found["__typename"] for found in refused] == ["UnacceptableFile"] * 2
    assert [found["__typename"] for found in taken] == ["SlugTaken"] * 2


async def test_a_call_whose_client_disconnected_can_be_retried(gateway: GatewayClient) -> None:
    given, _ = await _upload(gateway)
    keyed = {**given, "idempotencyKey": "key"}
    too_short = await answer(gateway, "uploadPhoto", keyed, DATA, content=_half(keyed))

    again = await result(gateway, "uploadPhoto", keyed, DATA)

    assert too_short.codes == ["BAD_REQUEST"]
    assert again["__typename"] == "PhotoPayload"
    await assert_invariants(gateway)


async def _half(given: Given) -> Any:
    yield upload_body("uploadPhoto", given, DATA)[:-500]
