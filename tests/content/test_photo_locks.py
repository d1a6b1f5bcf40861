"""The lock of an upload: it is renewed while bytes arrive, and expires if none do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from tests.content.support.photos import Slow, create_gallery, noise, photo_input, send, stored, upload_body
from tests.support.fixtures import gateway_with
from tests.support.harness import GatewayClient
from tests.support.interruptions import database_of, interrupted
from tests.support.multipart import pieces_of

pytestmark = [pytest.mark.both_drivers, pytest.mark.usefixtures("sound")]
# It renews the lock of an upload within a second.
gateway = gateway_with(upload_stall_seconds=1)


async def _dripping(given: dict[str, Any], data: bytes) -> AsyncIterator[bytes]:
    body = upload_body("uploadPhoto", given, data)
    for piece in pieces_of(body, len(body) // 6):
        yield piece
        await asyncio.sleep(0.4)


async def test_an_upload_that_makes_progress_keeps_its_lock(gateway: GatewayClient) -> None:
    given = photo_input(await create_gallery(gateway))
    upload = asyncio.create_task(send(gateway, "uploadPhoto", given, b"", content=_dripping(given, noise(1))))
    await asyncio.sleep(1.5)
    await gateway.run_jobs()
    uploaded = (await upload).json()["data"]["uploadPhoto"]

    assert uploaded["__typename"] == "PhotoPayload"


async def test_a_stalled_upload_is_given_up(gateway: GatewayClient) -> None:
    given = photo_input(await create_gallery(gateway))
    slow = Slow("uploadPhoto", given, noise(2))

    response = await send(gateway, "uploadPhoto", given, b"", content=aiter(slow))

    assert response.json()["errors"][0]["extensions"] == {"code": "UPLOAD_INCOMPLETE"}
    assert await stored(gateway.db) == (0, 0)


async def test_a_renewal_that_the_database_carries_out_late_does_not_keep_what_is_given_up(
    gateway: GatewayClient,
) -> None:
    """The renewal was cancelled, but it was sent already."""
    database, renewed = gateway.db, asyncio.Event()

    async def renew() -> None:
        later = {"$set": {"detail.upload.until": datetime(2100, 1, 1)}}  # noqa: DTZ001 - stored times are naive UTC
        assert (await database["cms.nodes"].update_one({"detail.upload": {"$exists": True}}, later)).matched_count
        renewed.set()

    given = photo_input(await create_gallery(gateway))
    slow = Slow("uploadPhoto", given, noise(2))
    with database_of(gateway, interrupted(database, "cms.nodes", "delete_one", renew)):
        response = await send(gateway, "uploadPhoto", given, b"", content=aiter(slow))

    assert renewed.is_set()
    assert response.json()["errors"][0]["extensions"] == {"code": "UPLOAD_INCOMPLETE"}
    assert await stored(database) == (0, 0)
    assert await database["cms.nodes"].find_one({"detail.upload": {"$exists": True}}) is None


async def test_an_upload_ends_even_if_the_driver_loses_the_cancellation_of_a_renewal(gateway: GatewayClient) -> None:
    """A command that is cancelled as it is sent can go on as if nothing had happened."""
    lost = asyncio.Event()

    async def lose() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        lost.set()

    given = photo_input(await create_gallery(gateway))
    stalled = Slow("uploadPhoto", given, noise(2))
    # The first update is of the node's creation.
    with database_of(gateway, interrupted(gateway.db, "cms.nodes", "update_one", lose, skip=1)):
        upload = asyncio.create_task(send(gateway, "uploadPhoto", given, b"", content=aiter(stalled)))
        # Not by asyncio.timeout, whose cancellation could end what hangs.
        ended, _ = await asyncio.wait({upload}, timeout=20)

    assert lost.is_set()
    assert ended
    assert upload.result().json()["errors"][0]["extensions"] == {"code": "UPLOAD_INCOMPLETE"}
    assert await stored(gateway.db) == (0, 0)
