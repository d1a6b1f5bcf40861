"""Images at any moment: creatives that begin to use one while a job deletes it, and crashes of both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from portico.gateway.mongo.faults import Crash
from portico.resolvers.ads import creatives, images
from portico.resolvers.ads.ads import ad_key
from portico.resolvers.ads.creatives import Creative, forget_images, set_creative
from portico.resolvers.ads.images import Image, ImageRules
from portico.resolvers.documents import Database
from portico.resolvers.writes.marks import random_operation_id
from portico.testing import crashing
from tests.ads.support.ads import ad, place
from tests.ads.support.creatives import LINK, banner
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.moments import meanwhile

pytestmark = pytest.mark.usefixtures("sound")
LATER = timedelta(days=2)


async def received(gateway: GatewayClient) -> Image:
    async def file() -> AsyncIterator[bytes]:
        yield banner()

    return await images.receive(file(), gateway.state.resources.of(ImageRules))


async def use(db: Database, image: Image | None, now: datetime, unit: str = "banner") -> None:
    creative = Creative("acme:spring", unit, "Spring is here.", LINK, image=image)
    await set_creative(db, creative, now=now, operation_id=random_operation_id())


@pytest.fixture
async def image(gateway: GatewayClient) -> Image:
    """An image that an ad has used long ago."""
    await place(gateway, ad(), ad(unit="former"))
    found, now = await received(gateway), gateway.state.clock.now()
    await use(gateway.db, found, now, "former")
    await use(gateway.db, None, now, "former")
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

    with meanwhile(gateway, lambda: forget_images(gateway.db, now=now + 2 * LATER), skip=before):
        await use(gateway.db, image, now + LATER)

    assert await is_there(gateway, image)


@pytest.mark.sample(3)
@pytest.mark.parametrize("before", range(6))
async def test_an_image_that_is_used_again_during_the_job_stays(
    gateway: GatewayClient, image: Image, before: int
) -> None:
    now = gateway.state.clock.now() + LATER

    with meanwhile(gateway, lambda: use(gateway.db, image, now), skip=before) as used:
        await forget_images(gateway.db, now=now)

    assert await is_there(gateway, image) == bool(used)


@pytest.mark.sample(3)
@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("paused", range(6))
async def test_an_upload_that_pauses_during_the_job_and_ends_after_it_has_its_image(
    gateway: GatewayClient, image: Image, paused: int, before: int
) -> None:
    """The job begins before a command of the upload, and pauses before one of its own, where the upload goes on."""
    now = gateway.state.clock.now()

    async def job() -> bool:
        with meanwhile(gateway, lambda: use(gateway.db, image, now + LATER), skip=before) as uploads:
            await forget_images(gateway.db, now=now + 2 * LATER)
        return bool(uploads)

    with meanwhile(gateway, job, skip=paused) as ended:
        await use(gateway.db, image, now + LATER, "former")

    assert await is_there(gateway, image)
    assert any(ended) or before or paused > 3


@pytest.mark.sample(2)
@pytest.mark.parametrize("stop", range(4))
async def test_a_crash_of_an_upload_leaves_the_creative_as_it_was_or_with_its_image(
    gateway: GatewayClient, image: Image, stop: int
) -> None:
    now = gateway.state.clock.now() + LATER
    other = Image(banner(color="red"), image.picture)
    with crashing(gateway, stop), suppress(Crash):
        await use(gateway.state.database, other, now, "former")

    creative = await creatives.find_creative(gateway.db, ad_key("acme:spring", "former"))
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
