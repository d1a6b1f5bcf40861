"""If a gateway stops during an upload, it removes the upload, and the log has no fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx

from portico.gateway.settings import Settings
from tests.content.support.photos import create_gallery, noise, photo_input, stored, upload_body
from tests.support.harness import GatewayClient, SettableClock, running
from tests.support.interruptions import database_of, interrupted
from tests.support.multipart import CONTENT_TYPE, PREFLIGHT
from tests.support.processes import environment, served


async def test_an_interrupted_upload_is_removed_before_the_database_connection_closes(
    settings: Settings, clock: SettableClock, tmp_path: Path
) -> None:
    settings = replace(settings, stop_seconds=1)
    async with running(settings, clock=clock) as gateway:
        given = photo_input(await create_gallery(gateway), idempotencyKey="the key")
        body = upload_body("uploadPhoto", given, noise(6))
        headers = {"content-type": CONTENT_TYPE, "authorization": f"Bearer {gateway.token()}", **PREFLIGHT}

        async def half() -> AsyncIterator[bytes]:
            yield body[: len(body) * 3 // 4]
            await asyncio.sleep(60)

        with served(tmp_path / "served", environment(settings)) as server:
            async with httpx.AsyncClient(timeout=60) as client:
                sending = asyncio.create_task(client.post(server.graphql, content=half(), headers=headers))
                while not await gateway.db["cms.assets.chunks"].count_documents({}):  # noqa: ASYNC110 - no signal
                    await asyncio.sleep(0.05)
                server.process.terminate()
                await asyncio.to_thread(server.process.wait)
                sending.cancel()
                await asyncio.wait({sending})

        assert "after close" not in server.process.errors + server.process.output
        assert await stored(gateway.db) == (0, 0)
        assert await gateway.db["cms.nodes"].count_documents({"type": "photo"}) == 0
        record = await gateway.stored("operations")
        assert record["lease_until"] <= clock.now()


async def test_an_upload_that_is_cancelled_while_it_is_undone_leaves_nothing(gateway: GatewayClient) -> None:
    """The connection of an upload closes when the gateway stops, and its time is over at that moment, too."""
    given = photo_input(await create_gallery(gateway))
    body = upload_body("uploadPhoto", given, noise(6)[:-1_000])
    headers = {"content-type": CONTENT_TYPE, "authorization": f"Bearer {gateway.token()}", **PREFLIGHT}
    stopped: list[str] = []

    async def stop() -> None:
        stopped.append("undoing")
        sending.cancel()
        await asyncio.sleep(0)

    with database_of(gateway, interrupted(gateway.db, "cms.assets.chunks", "delete_many", stop)):
        sending = asyncio.create_task(gateway.http.post("/graphql", content=body, headers=headers))
        await asyncio.wait({sending})

    assert sending.cancelled()
    assert stopped == ["undoing"]
    assert await stored(gateway.db) == (0, 0)
