"""Workers: of background jobs, and of a gateway with several processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from portico.gateway.work.jobs import Worker
from portico.resolvers.documents import Database
from tests.support.domains import JOBS
from tests.support.harness import GatewayClient, SettableClock
from tests.support.processes import Served


def worker(gateway: GatewayClient, clock: SettableClock, database: Database | None = None, **options: Any) -> Worker:
    options = {"resources": gateway.state.resources, "jobs": JOBS, **options}
    return Worker(database if database is not None else gateway.db, clock, pause_seconds=0.01, **options)


@contextlib.asynccontextmanager
async def at_work(worker: Worker) -> AsyncIterator[None]:
    """Run the worker during the block."""
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def serving_processes(gateway: Served) -> list[int]:
    """The processes that serve, without the one that tracks the resources of all."""
    pid = gateway.process.pid
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in children if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()]
