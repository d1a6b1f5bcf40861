"""An operation takes the current time when it needs it, so neither a wait nor a slow step shortens a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from portico.gateway.clock import SystemClock
from portico.resolvers.content import assets, photo_jobs, photos
from portico.resolvers.content.photo_imports import PhotoRecord, import_photos
from portico.resolvers.content.photo_uploads import UploadRules
from portico.resolvers.documents import Database
from portico.resolvers.shop import cart_jobs
from portico.resolvers.shop.payments import Charge, PaymentMethods
from portico.resolvers.shop.settings import ShopSettings
from tests.content.support.photo_scene import NEW, PHOTO_JOBS, SEEN, Photos
from tests.content.support.photos import PicturesHere, bytes_of, create_gallery, create_photo, noise_of
from tests.content.support.site import page_input
from tests.shop.support.shop import Provider, checkout_input, new_cart, stock_up
from tests.support.harness import GatewayClient, SettableClock, run_jobs
from tests.support.interruptions import crashing, database_of, interrupted
from tests.support.pausing import Pause

SLOW = 1.0
# The number of changes after which an upload stores its bytes.
STORING = {"uploadPhoto": 4, "replacePhoto": 7}


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch) -> Photos:
    monkeypatch.setattr(assets, "CHUNK_BYTES", 1_000)
    monkeypatch.setattr(assets, "CHUNKS_AT_ONCE", 1)
    rules = gateway.state.resources.of(UploadRules)
    gateway.state.resources[UploadRules] = replace(rules, pictures=PicturesHere(), lock_lasts=timedelta(seconds=SLOW))
    return Photos(gateway, clock)


async def crashed(scene: Photos, mutation: str) -> tuple[Photos, Any]:
    """Leaves an upload whose call has died while it stored the bytes. Returns the scene and the input of the call."""
    scene = scene.trying(mutation)
    given = await scene.set(mutation)
    with crashing(scene.gateway, STORING[mutation]) as faulty:
        await scene.outcome(mutation, given)
    assert faulty.has_crashed
    return scene, given


@pytest.mark.parametrize("mutation", ["uploadPhoto", "replacePhoto"])
async def test_an_upload_keeps_its_lock_after_it_waits_for_the_lease_of_a_dead_call(
    scene: Photos, mutation: str
) -> None:
    db = scene.gateway.db
    scene, given = await crashed(scene, mutation)
    # The lease of the dead call expires in two seconds.
    scene.clock.advance(seconds=28)

    async def jobs() -> None:
        with database_of(scene.gateway, db):
            await run_jobs(scene.gateway, scene.clock, *PHOTO_JOBS)

    with database_of(scene.gateway, interrupted(db, assets.CHUNKS.name, "insert_many", jobs)):
        result = await scene.outcome(mutation, given)

    assert result == "PhotoPayload"


async def test_an_upload_that_a_job_discards_during_a_takeover_can_be_repeated(scene: Photos) -> None:
    """The job and the repeated call both read the upload of a dead call before either goes on."""
    db = scene.gateway.db
    scene, given = await crashed(scene, "uploadPhoto")
    scene.clock.advance(seconds=31)
    pause, calls = Pause(), list[asyncio.Task[str]]()

    async def call() -> None:
        with database_of(scene.gateway, interrupted(db, "cms.nodes", "update_one", pause)):
            calls.append(asyncio.create_task(scene.outcome("uploadPhoto", given)))
            await asyncio.wait_for(pause.reached.wait(), 30)

    await photo_jobs.finish_uploads(interrupted(db, "cms.nodes", "delete_one", call), now=scene.clock.now())
    pause.go_on.set()

    assert await calls[0] == "Conflict"
    assert await scene.outcome("uploadPhoto", given) == "PhotoPayload"


async def test_an_upload_that_a_job_discards_while_it_is_decoded_is_a_conflict_and_can_be_repeated(
    scene: Photos,
) -> None:
    db = scene.gateway.db
    scene = scene.trying("uploadPhoto")
    given = await scene.set("uploadPhoto")

    async def jobs() -> None:
        with database_of(scene.gateway, db):
            await scene.run_jobs(seconds=31)

    with database_of(scene.gateway, interrupted(db, assets.CHUNKS.name, "find", jobs, skip=1)):
        result = await scene.outcome("uploadPhoto", given)

    assert result == "Conflict"
    assert await scene.outcome("uploadPhoto", given) == "PhotoPayload"


async def test_a_slow_replacement_gives_readers_of_the_old_bytes_their_full_time(
    scene: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photos, "REPLACED_KEPT_FOR", timedelta(seconds=SLOW / 2))
    db = scene.gateway.db
    given = await scene.set("replacePhoto")
    old = (await db["cms.nodes"].find_one({"type": "photo"}) or {})["detail"]["file"]
    before = scene.clock.now()

    with database_of(scene.gateway, interrupted(db, assets.CHUNKS.name, "insert_many", lambda: asyncio.sleep(SLOW))):
        assert await scene.outcome("replacePhoto", given) == "PhotoPayload"
    await run_jobs(scene.gateway, scene.clock, *PHOTO_JOBS)

    assert await db[assets.CHUNKS.name].count_documents({"files_id": old}) == 1
    node = await db["cms.nodes"].find_one({"type": "photo"})
    assert node is not None
    assert node["updated"] - before >= timedelta(seconds=SLOW)
    assert await bytes_of(scene.gateway, (await scene.gateway.data(SEEN))["content"]) == NEW


async def test_a_photo_imported_after_slow_ones_keeps_its_lock(scene: Photos) -> None:
    db = scene.gateway.db
    # All three take longer than a lock lasts, and each takes less, even if the machine pauses for seconds.
    slow, lasts = 2.0, timedelta(seconds=5)
    rules = replace(scene.gateway.state.resources.of(UploadRules), lock_lasts=lasts)
    gallery = await create_gallery(scene.gateway, slug="gallery")
    await create_photo(scene.gateway, gallery, slug="there")

    def record(number: int) -> PhotoRecord:
        async def read() -> AsyncIterator[bytes]:
            await asyncio.sleep(slow)
            await photo_jobs.finish_uploads(db, now=SystemClock().now())
            yield noise_of(28, 28, number)

        return PhotoRecord(f"photo-{number}", "A photo", "/gallery", "import", (), read)

    records = [record(number) for number in range(3)]
    result = await import_photos(db, records, rules=rules, now=SystemClock().now())

    assert result == ["created"] * 3


async def test_each_field_of_a_mutation_has_its_own_time(gateway: GatewayClient, clock: SettableClock) -> None:
    text = """mutation ($one: CreatePageInput!, $two: CreatePageInput!) {
      one: createPage(input: $one) { ...Created }
      two: createPage(input: $two) { ...Created }
    }
    fragment Created on CreateContentResult { ... on ContentPayload { content { created } } }"""

    async def later() -> None:
        clock.advance(seconds=60)

    with database_of(gateway, interrupted(gateway.db, "cms.nodes", "insert_one", later)):
        made = await gateway.data(text, {"one": page_input(), "two": page_input()})

    one, two = (datetime.fromisoformat(made[name]["content"]["created"]) for name in ("one", "two"))
    assert two - one >= timedelta(seconds=60)


class SlowProvider(Provider):
    """A provider that answers slowly."""

    async def charge(self, db: Database, charge: Charge, *, now: datetime) -> str:
        await asyncio.sleep(SLOW)
        return await super().charge(db, charge, now=now)


async def test_a_cart_gets_its_full_time_after_a_late_decline(gateway: GatewayClient) -> None:
    gateway.state.resources[PaymentMethods] = SlowProvider()
    cart = await new_cart(gateway, **{await stock_up(gateway): 1})
    before = SystemClock().now()

    declined = await gateway.result("checkout", checkout_input(cart, "decline"))

    assert declined["__typename"] == "PaymentDeclined"
    found = await gateway.stored("carts")
    lasts = gateway.state.resources.of(ShopSettings).cart_lifetime
    assert found["expires_at"] - before >= lasts + timedelta(seconds=SLOW)


async def test_a_pending_payment_is_checked_again_half_a_minute_after_its_last_check(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cart_jobs, "_CHARGES_AT_ONCE", 1)
    provider: Any = SlowProvider()
    gateway.state.resources[PaymentMethods] = provider
    for _ in range(2):
        cart = await new_cart(gateway, **{await stock_up(gateway): 1})
        assert (await gateway.result("checkout", checkout_input(cart, "hang")))["__typename"] == "PaymentPending"
    await gateway.run_jobs("finish-checkouts", seconds=31)

    first, second = sorted([cart["due"] async for cart in gateway.db["carts"].find({})])
    assert second - first >= timedelta(seconds=SLOW)
