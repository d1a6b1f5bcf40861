"""Work that nobody waits for: leased, so that one worker at a time does each; every job may be repeated."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from pymongo.errors import PyMongoError

from resolvers import (
    cart_jobs,
    category_jobs,
    comment_jobs,
    content_jobs,
    leases,
    photo_jobs,
    product_jobs,
    stock_jobs,
    transfer_jobs,
)
from resolvers.documents import Database, upgrade_batch
from resolvers.indexes import COLLECTIONS
from resolvers.payments import Payments

from .clock import Clock
from .logs import logger

LEASE = timedelta(seconds=60)
# Between two turns while there is work: what cannot be finished must not be tried without a pause.
_BETWEEN = 0.1
RELEASE_SECONDS = 2.0


@dataclass(frozen=True)
class Turn:
    """What one turn of a job works with."""

    db: Database
    now: datetime
    payments: Payments


@dataclass(frozen=True)
class Job:
    """`run` does some of what is to be done, and returns how much."""

    name: str
    run: Callable[[Turn], Awaitable[int]]


async def _finish_categories(turn: Turn) -> int:
    return await category_jobs.finish_changes(turn.db, now=turn.now)


async def _finish_products(turn: Turn) -> int:
    return await product_jobs.finish_changes(turn.db, now=turn.now)


async def _finish_content(turn: Turn) -> int:
    return await content_jobs.finish_changes(turn.db, now=turn.now)


async def _finish_stock(turn: Turn) -> int:
    in_carts = await cart_jobs.finish_moves(turn.db, now=turn.now)
    return in_carts + await stock_jobs.finish_changes(turn.db, now=turn.now)


async def _finish_uploads(turn: Turn) -> int:
    return await photo_jobs.finish_uploads(turn.db, now=turn.now)


async def _expire_carts(turn: Turn) -> int:
    begun = await cart_jobs.finish_expiries(turn.db, now=turn.now)
    return begun + await cart_jobs.expire_idle(turn.db, now=turn.now)


async def _finish_checkouts(turn: Turn) -> int:
    return await cart_jobs.finish_checkouts(turn.db, turn.payments, now=turn.now)


async def _finish_transfers(turn: Turn) -> int:
    return await transfer_jobs.finish_transfers(turn.db, now=turn.now)


async def _finish_comments(turn: Turn) -> int:
    split = await comment_jobs.finish_splits(turn.db, now=turn.now)
    return split + await comment_jobs.finish_comments(turn.db, now=turn.now)


async def _upgrade_documents(turn: Turn) -> int:
    return sum([await upgrade_batch(turn.db, spec) for spec in COLLECTIONS])


JOBS: tuple[Job, ...] = (
    Job("finish-categories", _finish_categories),
    Job("finish-products", _finish_products),
    Job("finish-content", _finish_content),
    Job("finish-stock", _finish_stock),
    Job("expire-carts", _expire_carts),
    Job("finish-checkouts", _finish_checkouts),
    Job("finish-transfers", _finish_transfers),
    Job("finish-comments", _finish_comments),
    Job("finish-uploads", _finish_uploads),
    Job("upgrade-documents", _upgrade_documents),
)


class Worker:
    """Runs the jobs again and again. A job that fails is logged, and tried again in its next turn."""

    def __init__(self, db: Database, clock: Clock, pause_seconds: float, payments: Payments) -> None:
        self._db = db
        self._clock = clock
        self._payments = payments
        self._pause = pause_seconds
        self._owner = uuid4().hex

    async def run(self) -> None:
        """Until it is cancelled; the leases it holds are given back then."""
        try:
            while True:
                worked = await self.run_once()
                await asyncio.sleep(_BETWEEN if worked else self._pause)
        finally:
            # They run out by themselves; a database that does not answer must not hold who wants to stop.
            with contextlib.suppress(PyMongoError, TimeoutError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    await leases.release(self._db, [job.name for job in JOBS], owner=self._owner)

    async def run_once(self) -> int:
        """One turn of every job that nobody else has leased. Returns how much was done."""
        done = 0
        for job in JOBS:
            try:
                done += await self._run_job(job)
            except Exception:  # noqa: BLE001 - one job's fault must not stop the others
                _end_if_cancelled()
                logger().exception("job failed", job=job.name)
            _end_if_cancelled()
        return done

    async def _run_job(self, job: Job) -> int:
        now = self._clock.now()
        if not await leases.acquire(self._db, job.name, owner=self._owner, now=now, duration=LEASE):
            return 0
        done = await job.run(Turn(self._db, now, self._payments))
        if done:
            logger().info("job done", job=job.name, count=done)
        return done


def _end_if_cancelled() -> None:
    """The driver may turn a cancellation into a failed command of its own, or try the command again."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
