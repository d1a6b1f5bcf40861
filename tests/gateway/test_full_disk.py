"""MongoDB's disk is full: clients are told to retry, and everything that was acknowledged is there afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from tests.support.harness import MUTATIONS, GatewayClient, SettableClock, category_input, running
from tests.support.small_disks import SmallDisk, can_mount, small_disk
from tests.support.sockets import until as wait_until

pytestmark = pytest.mark.skipif(not can_mount(), reason="a full disk: this machine allows no mounts")

WRITERS = 8
until = partial(wait_until, seconds=120)
# What a client may be told while the database cannot write.
RETRYABLE = {"UNAVAILABLE", "TIMEOUT", "OVERLOADED", "OPERATION_UNDER_WAY"}


class Writers:
    """Clients that create categories until they are stopped, and repeat what they have no answer for."""

    def __init__(self, gateway: GatewayClient, clock: SettableClock) -> None:
        self.gateway = gateway
        self.clock = clock
        self.acknowledged: set[str] = set()
        self.codes: set[str] = set()
        self.is_over = False

    async def run(self, writer: int) -> None:
        number, is_open = 0, True
        while not self.is_over or is_open:
            slug = f"w{writer}-{number}"
            given = category_input(slug=slug, idempotencyKey=slug, name="x" * 200)
            answer = await self.gateway.ask(MUTATIONS["createCategory"], {"input": given})
            is_open = bool(answer.codes)
            if is_open:
                self.codes |= set(answer.codes)
                await asyncio.sleep(0.05)
                # A call that was cut off keeps its key for half a minute.
                self.clock.advance(seconds=30)
                continue
            assert answer.data["createCategory"]["__typename"] == "CategoryPayload"
            self.acknowledged.add(slug)
            number += 1


async def test_no_acknowledged_write_is_lost_when_the_disk_is_full(
    settings: Settings, clock: SettableClock, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "small") as disk:
        own = replace(settings, mongodb_uri=Secret(disk.uri), database_seconds=2)
        async with running(own, clock=clock) as gateway:
            writers = Writers(gateway, clock)
            async with asyncio.TaskGroup() as group:
                for number in range(WRITERS):
                    group.create_task(writers.run(number))
                await until(lambda: len(writers.acknowledged) > WRITERS)
                await asyncio.to_thread(disk.fill)
                await until(lambda: bool(writers.codes))
                await recover(disk)
                before = len(writers.acknowledged)
                await until(lambda: len(writers.acknowledged) > before + WRITERS)
                writers.is_over = True
            stored = await gateway.db["categories"].distinct("slug")
    assert writers.codes <= RETRYABLE
    assert set(stored) == writers.acknowledged
    assert len(stored) == len(set(stored))


async def recover(disk: SmallDisk) -> None:
    """Makes room, and starts the server again: without room, it has ended itself."""
    disk.free()
    await asyncio.to_thread(disk.stop)
    await asyncio.to_thread(disk.start)
