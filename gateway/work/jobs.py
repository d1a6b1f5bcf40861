"""Work that nobody waits for: leased, so that one worker at a time does each; every job may be repeated."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

from pymongo.errors import PyMongoError

from portico.gateway.clock import Clock
from portico.gateway.logs import logger
from portico.gateway.tasks import end, end_if_cancelled
from portico.resolvers.documents import Database
from portico.resolvers.domains import Job, Resources, Turn
from portico.resolvers.writes import leases
from portico.resolvers.writes.sweeps import SweepFailed

# Short, for the jobs of a worker that was killed wait until it has run out. It is renewed while a job runs.
LEASE = timedelta(seconds=10)
_BEATS = 3
# Between two turns while there is work: what cannot be finished must not be tried without a pause.
_BETWEEN = 0.1
RELEASE_SECONDS = 2.0


class Worker:
    """Runs each job again and again, in a rhythm of its own: one that is slow holds up no other.

    A job that fails is logged, and tried again in its next turn.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        pause_seconds: float,
        resources: Resources,
        jobs: Sequence[Job],
        *,
        lease: timedelta = LEASE,
    ) -> None:
        self._db = db
        self._clock = clock
        self._resources = resources
        self._pause = pause_seconds
        self._jobs = jobs
        self._lease = lease
        self._owner = uuid4().hex
        self._acquiring: set[asyncio.Task[bool]] = set()

    async def run(self) -> None:
        """Until it is cancelled; the leases it holds are given back then."""
        try:
            async with asyncio.TaskGroup() as group:
                for job in self._jobs:
                    group.create_task(self._repeat(job))
        finally:
            # They run out by themselves; a database that does not answer must not hold who wants to stop.
            with contextlib.suppress(PyMongoError, TimeoutError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    # One that is taken after they were given back would last until it runs out.
                    await asyncio.gather(*self._acquiring, return_exceptions=True)
                    await leases.release(self._db, [job.name for job in self._jobs], owner=self._owner)

    async def run_once(self) -> int:
        """One turn of every job that nobody else has leased. Returns how much was done."""
        return sum(await asyncio.gather(*map(self._turn, self._jobs)))

    async def _repeat(self, job: Job) -> None:
        while True:
            worked = await self._turn(job)
            await asyncio.sleep(_BETWEEN if worked else self._pause)

    async def _turn(self, job: Job) -> int:
        done = 0
        try:
            if await self._acquire(job):
                done = await self._run_job(job)
        except SweepFailed as failed:
            done = failed.done
            end_if_cancelled()
            logger().exception("job failed", job=job.name)
        except Exception:  # noqa: BLE001 - one turn's fault must not stop the next
            end_if_cancelled()
            logger().exception("job failed", job=job.name)
        end_if_cancelled()
        if done:
            logger().info("job done", job=job.name, count=done)
        return done

    async def _acquire(self, job: Job) -> bool:
        """Whether the job is leased. Who stops waiting for that does not keep the command from the server."""
        acquiring = asyncio.create_task(
            leases.acquire(self._db, job.name, owner=self._owner, now=self._clock.now(), duration=self._lease)
        )
        self._acquiring.add(acquiring)
        acquiring.add_done_callback(self._acquiring.discard)
        return await asyncio.shield(acquiring)

    async def _run_job(self, job: Job) -> int:
        """A turn of a job that is leased; it stops where the lease is lost."""
        work = asyncio.create_task(job.run(Turn(self._db, self._clock.now(), self._resources)))
        heartbeat = asyncio.create_task(self._renew(job))
        try:
            await asyncio.wait({work, heartbeat}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else heartbeat.result()
        finally:
            await end(work, heartbeat)

    async def _renew(self, job: Job) -> int:
        """Renews the lease until it is lost. A database that does not answer has given it to nobody else yet."""
        is_held = True
        while is_held:
            await asyncio.sleep(self._lease.total_seconds() / _BEATS)
            with contextlib.suppress(PyMongoError):
                is_held = await self._acquire(job)
            end_if_cancelled()
        logger().warning("job lost its lease", job=job.name)
        return 0
