"""Runs jobs in the background.

A lease on each job lets one worker at a time run it, unless the job is shared. A lease can expire during a run, so jobs
must be safe to repeat.

A lease lasts ten seconds, and a running job renews it every third of that time. A job that loses its lease stops. So
after a worker is killed, its jobs wait for at most ten seconds. Shared jobs take no lease, because each of their runs
claims what it works on. If the call that has left a mark is still running, it and the job do the same steps, and each
step has its effect once. Each job has its own interval, so a job that waits for a service does not delay the others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

from pymongo.errors import PyMongoError

from portico.gateway.clock import Clock
from portico.gateway.logs import logger
from portico.resolvers.declarations import Job, Resources, Wakeups
from portico.resolvers.documents import Database
from portico.resolvers.tasks import end, end_if_cancelled
from portico.resolvers.writes import leases
from portico.resolvers.writes.sweeps import SweepFailed

from .duty import Duty
from .job_runs import AllRuns

# Short, because the jobs of a killed worker wait until their leases expire. A worker renews the lease of a running job.
LEASE = timedelta(seconds=10)
_RENEWALS_PER_LEASE = 3
# The pause after a run that found work, in seconds. Without a pause, work that cannot be finished would spin.
_PAUSE_AFTER_WORK = 0.1
RELEASE_SECONDS = 2.0
# For how many seconds a job that waits does so, at most. It is shorter than the time between two renewals of a lease.
_PATIENCE = 3.0


class Worker:
    """Runs each job repeatedly and concurrently with the others, so that a slow job delays no other.

    If a run fails, the worker logs the error, and the job continues with its next run, after a pause that grows.

    Args:     database: the address and the name of the database. Of the workers of a machine with the same one, those
              that are not on duty look for no work; see `duty`. If empty, the worker always does.  runs: where the runs
              are counted.
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
        database: str = "",
        runs: AllRuns | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._resources = resources
        self._wakeups: Wakeups = resources.get(Wakeups) or Wakeups()
        self._pause = pause_seconds
        self._jobs = jobs
        self._lease = lease
        self._runs = AllRuns() if runs is None else runs
        self._owner = uuid4().hex
        self._acquiring: set[asyncio.Task[bool]] = set()
        self._database = database
        self._duty: Duty | None = None

    async def run(self) -> None:
        """Runs the jobs until the task is cancelled, then releases their leases."""
        if self._database:
            work = " ".join((self._database, str(self._pause), *(job.name for job in self._jobs)))
            self._duty = Duty(work, self._lease.total_seconds(), self._wakeups.wake)
        try:
            async with asyncio.TaskGroup() as group:
                for job in self._jobs:
                    group.create_task(self._repeat(job))
        finally:
            if self._duty is not None:
                self._duty.close()
            # The leases also expire by themselves, so an unreachable database does not delay the stop for long.
            with contextlib.suppress(PyMongoError, TimeoutError):
                async with asyncio.timeout(RELEASE_SECONDS):
                    await self._release()

    async def run_once(self) -> int:
        """Runs every job once that no other worker has leased, and every shared job. Returns how much was done."""
        return sum(await asyncio.gather(*map(self._try_job, self._jobs)))

    async def _release(self) -> None:
        """Releases the leases that this worker holds, and then those that it is still acquiring.

        The server carries out an acquisition that was sent, so its lease would otherwise stay until it expires.
        """
        names = [job.name for job in self._jobs]
        # Noted before, as an acquisition can take effect after the release and be answered before it.
        acquiring = tuple(self._acquiring)
        await leases.release(self._db, names, owner=self._owner)
        if acquiring:
            await asyncio.gather(*acquiring, return_exceptions=True)
            await leases.release(self._db, names, owner=self._owner)

    async def _repeat(self, job: Job) -> None:
        woken, loop = self._wakeups.of(job.name), asyncio.get_running_loop()
        worked = 0
        while True:
            begun = loop.time()
            # A shared job that was woken, or has work, needs nobody on duty.
            was_woken = woken.is_set()
            is_called = job.is_shared and (was_woken or worked > 0)
            woken.clear()
            runs = self._runs.of(job)
            if is_called or self._duty is None or self._duty.is_ours():
                worked = await self._try_job(job, min(self._pause, _PATIENCE) if job.waits else 0)
                self._note_work(job, worked)
            else:
                worked = 0
                if was_woken:
                    self._duty.wake_on_duty(job.name)
            if runs.is_failing:
                # A request that wakes the job does not shorten the pause.
                await asyncio.sleep(runs.pause(self._pause))
            else:
                has_waited = job.waits and loop.time() - begun >= min(self._pause, _PATIENCE) / 2
                await rest(woken, _PAUSE_AFTER_WORK if worked or has_waited else self._pause)

    async def _try_job(self, job: Job, patience: float = 0) -> int:
        done, runs = 0, self._runs.of(job)
        try:
            if job.is_shared:
                with runs.running(asyncio.current_task()):
                    done = await job.count(self._begin(patience))
                runs.succeeded(done)
            elif await self._acquire(job):
                done = await self._run_job(job, patience)
                runs.succeeded(done)
        except Exception as error:  # noqa: BLE001 - a run that fails must not stop the next one
            end_if_cancelled()
            runs.failed(error)
            done = error.done if isinstance(error, SweepFailed) else 0
        end_if_cancelled()
        if done:
            logger().info("job done", job=job.name, count=done)
        return done

    def _note_work(self, job: Job, worked: int) -> None:
        if self._duty is not None and job.is_shared:
            (self._duty.at_work.add if worked else self._duty.at_work.discard)(job.name)

    def _begin(self, patience: float) -> Job.Run:
        return Job.Run(self._db, self._clock.now(), self._resources, patience)

    async def _acquire(self, job: Job) -> bool:
        """Acquires or renews the lease. Returns whether this worker has it. Cancelling it does not stop the command."""
        acquiring = asyncio.create_task(
            leases.acquire(self._db, job.name, owner=self._owner, now=self._clock.now(), duration=self._lease)
        )
        self._acquiring.add(acquiring)
        acquiring.add_done_callback(self._acquired)
        return await asyncio.shield(acquiring)

    def _acquired(self, acquiring: asyncio.Task[bool]) -> None:
        self._acquiring.discard(acquiring)
        if not acquiring.cancelled():
            # If the caller was cancelled, nobody else asks for the error, and asyncio would log it.
            acquiring.exception()

    async def _run_job(self, job: Job, patience: float) -> int:
        """Runs a leased job once. Stops if the lease is lost."""
        work = asyncio.create_task(job.count(self._begin(patience)))
        heartbeat = asyncio.create_task(self._renew(job))
        try:
            with self._runs.of(job).running(work):
                await asyncio.wait({work, heartbeat}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else heartbeat.result()
        finally:
            await end(work, heartbeat)

    async def _renew(self, job: Job) -> int:
        """Renews the lease until it is lost. After a failed command it retries, because the lease may still be held."""
        is_held = True
        while is_held:
            await asyncio.sleep(self._lease.total_seconds() / _RENEWALS_PER_LEASE)
            with contextlib.suppress(PyMongoError):
                is_held = await self._acquire(job)
            end_if_cancelled()
        logger().warning("job lost its lease", job=job.name)
        return 0


async def rest(woken: asyncio.Event, seconds: float) -> None:
    """Waits until the event is set, at most this long. A job that waits here is idle."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await woken.wait()
