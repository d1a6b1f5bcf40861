"""Images at any moment: creatives that begin to use one while a job deletes it, and crashes of both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from portico.gateway.mongo.faults import Crash
from portico.resolvers.ads import creatives, images
from portico.resolvers.ads.creatives import Creative, forget_images, set_creative
from portico.resolvers.ads.images import Image, ImageRules
from portico.resolvers.documents import Database
from portico.resolvers.writes.marks import random_operation_id
from portico.testing import crashing
from tests.ads.support.ads import ad, place
from tests.ads.support.creatives import LINK, banner
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.interruptions import interrupted

LATER = timedelta(days=2)


async def received(gateway: GatewayClient) -> Image:
    async def file() -> AsyncIterator[bytes]:
        yield banner()

    return await images.receive(file(), gateway.state.resources.of(ImageRules))


async def use(db: Database, image: Image, now: datetime, unit: str = "banner") -> None:
    creative = Creative("acme:spring", unit, "Spring is here.", LINK, image=image)
    await set_creative(db, creative, now=now, operation_id=random_operation_id())


async def drop(db: Database, unit: str, now: datetime) -> None:
    creative = Creative("acme:spring", unit, "Spring is here.", LINK)
    await set_creative(db, creative, now=now, operation_id=random_operation_id())


@pytest.fixture
async def image(gateway: GatewayClient) -> Image:
    """An image that an ad has used long ago."""
    await place(gateway, ad(), ad(unit="former"))
    found, now = await received(gateway), gateway.state.clock.now()
    await use(gateway.db, found, now, "former")
    await drop(gateway.db, "former", now)
    return found


async def is_there(gateway: GatewayClient, image: Image) -> bool:
    return await images.find_image(gateway.db, image.facts["checksum"]) is not None


@pytest.mark.sample(3)
@pytest.mark.parametrize("before", range(6))
async def test_an_image_that_a_job_would_delete_during_its_new_use_stays(
    gateway: GatewayClient, image: Image, before: int
) -> None:
    """The job runs as a whole before each command of the upload, and its clock is ahead."""
    now = gateway.state.clock.now()
    db = interrupted(gateway.db, None, None, lambda: forget_images(gateway.db, now=now + 2 * LATER), skip=before)

    await use(db, image, now + LATER)

    assert await is_there(gateway, image)
    await assert_invariants(gateway)


@pytest.mark.sample(3)
@pytest.mark.parametrize("before", range(6))
async def test_an_image_that_is_used_again_during_the_job_stays(
    gateway: GatewayClient, image: Image, before: int
) -> None:
    now = gateway.state.clock.now() + LATER
    is_used = False

    async def use_it() -> None:
        nonlocal is_used
        is_used = True
        await use(gateway.db, image, now)

    await forget_images(interrupted(gateway.db, None, None, use_it, skip=before), now=now)

    assert await is_there(gateway, image) == is_used
    await assert_invariants(gateway)


@pytest.mark.sample(3)
@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("paused", range(6))
async def test_an_upload_that_pauses_during_the_job_and_ends_after_it_has_its_image(
    gateway: GatewayClient, image: Image, paused: int, before: int
) -> None:
    """The job begins before a command of the upload, and pauses before one of its own, where the upload goes on."""
    now = gateway.state.clock.now()
    ended = False

    async def job() -> None:
        await forget_images(interrupted(gateway.db, None, None, upload, skip=before), now=now + 2 * LATER)

    async def upload() -> None:
        nonlocal ended
        ended = True
        await use(gateway.db, image, now + LATER)

    await use(interrupted(gateway.db, None, None, job, skip=paused), image, now + LATER, "former")

    assert await is_there(gateway, image)
    assert ended or before or paused > 3
    await assert_invariants(gateway)


@pytest.mark.sample(2)
@pytest.mark.parametrize("stop", range(4))
async def test_a_crash_of_an_upload_leaves_the_creative_as_it_was_or_with_its_image(
    gateway: GatewayClient, image: Image, stop: int
) -> None:
    now = gateway.state.clock.now() + LATER
    other = Image(banner(color="red"), image.picture)
    with crashing(gateway, stop), suppress(Crash):
        await use(gateway.state.database, other, now, "former")

    creative = await creatives.find_creative(gateway.db, _key())
    assert creative is not None
    assert await is_there(gateway, other) == (stop > 0)
    assert ("image" in creative) == (stop > 1)
    await assert_invariants(gateway)
    await forget_images(gateway.db, now=now + LATER)
    assert await is_there(gateway, other) == (stop > 1)


@pytest.mark.parametrize("stop", range(4))
async def test_a_job_that_crashes_is_finished_by_the_next_run(gateway: GatewayClient, image: Image, stop: int) -> None:
    now = gateway.state.clock.now() + LATER
    with crashing(gateway, stop), suppress(Crash):
        await forget_images(gateway.state.database, now=now)

    await assert_invariants(gateway)
    await forget_images(gateway.db, now=now)
    assert not await is_there(gateway, image)


def _key() -> str:
    return Creative("acme:spring", "former", "", "").key
