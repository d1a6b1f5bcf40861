"""All processes use the clock of the database server, even if the clocks of their machines are wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from portico.gateway.clock import SystemClock, machine_time
from portico.gateway.logs import configure
from portico.gateway.mongo.database_clock import DatabaseClock, clock_of
from portico.gateway.settings import Settings
from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database
from portico.resolvers.server_time import server_time
from portico.resolvers.shop.settings import ShopSettings
from portico.resolvers.writes.timer import Timer
from tests.shop.support.shop import add_input, cart_of, new_cart, quantities, stock_of, stock_up
from tests.support.documents import only
from tests.support.domains import JOBS
from tests.support.harness import GatewayClient, assert_invariants, running, with_settings
from tests.support.ids import key_in
from tests.support.processes import environment, eventually, started

HOURS = pytest.mark.parametrize("hours", [-5, 5], ids=["behind", "ahead"])
NEAR = timedelta(seconds=2)


def skewed(hours: float) -> DatabaseClock:
    """The clock of a process on a machine whose own clock is wrong."""
    return DatabaseClock(lambda: machine_time() + timedelta(hours=hours))


async def error_of(clock: DatabaseClock, db: Database) -> timedelta:
    return abs(clock.now() - await server_time(db))


@HOURS
async def test_a_wrong_machine_clock_is_corrected_and_logged(settings: Settings, db: Database, hours: int) -> None:
    configure(replace(settings, log_level="warning"))
    clock = skewed(hours)
    before = await error_of(clock, db)

    with capture_logs() as log:
        async with clock_of(db, clock) as used:
            after = await error_of(clock, db)

    assert used is clock
    assert before > timedelta(hours=4)
    assert after < NEAR
    assert [(entry["event"], round(entry["seconds"] / 3600)) for entry in log] == [("clock corrected", -hours)]


@HOURS
async def test_setting_the_machine_clock_does_not_affect_a_running_process(db: Database, hours: int) -> None:
    wrong = timedelta()
    clock = DatabaseClock(lambda: machine_time() + wrong)
    await clock.measure(db)

    wrong = timedelta(hours=hours)

    assert await error_of(clock, db) < NEAR


async def test_a_suspended_process_is_right_again_after_the_next_measurement(db: Database) -> None:
    slept = 0.0
    clock = DatabaseClock(elapsed=lambda: asyncio.get_running_loop().time() - slept)
    await clock.measure(db)
    slept = 3600.0
    late = await error_of(clock, db)

    await clock.measure(db)

    assert late > timedelta(minutes=59)
    assert await error_of(clock, db) < NEAR


def test_an_operation_counts_the_time_while_its_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    now = machine_time()
    clock, timer = DatabaseClock(lambda: now), Timer(now)
    hour_later = time.clock_gettime(time.CLOCK_BOOTTIME) + 3600

    monkeypatch.setattr(time, "clock_gettime", lambda _: hour_later)

    assert timer.seconds > 3599
    assert abs(timer.now() - clock.now()) < NEAR


async def test_a_slow_answer_does_not_change_a_clock_that_may_be_right(db: Database) -> None:
    elapsed = 0.0
    answered = await server_time(db)
    clock = DatabaseClock(lambda: answered, elapsed=lambda: elapsed)

    async def answer_after_a_minute() -> datetime:
        nonlocal elapsed
        elapsed += 60.0
        return answered

    await clock.measure(cast("Database", _Answering(answer_after_a_minute)))

    assert clock.now() == answered + timedelta(minutes=1)


class _Answering:
    """A server that answers slowly."""

    def __init__(self, answer: Callable[[], Awaitable[datetime]]) -> None:
        self._answer = answer

    async def command(self, _name: str) -> dict[str, Any]:
        return {"localTime": await self._answer()}


async def test_times_are_utc_without_a_zone_to_the_millisecond(db: Database) -> None:
    async with clock_of(db) as clock:
        now = clock.now()

    assert now.tzinfo is None
    assert now.microsecond % 1000 == 0
    assert abs(now - SystemClock().now()) < NEAR


async def idle_cart(gateway: GatewayClient, sku: str) -> str:
    """Returns a cart that has expired a second ago."""
    cart = await new_cart(gateway, **{sku: 1})
    past = await server_time(gateway.db) - timedelta(seconds=1)
    await gateway.db["carts"].update_one({"_id": key_in("Cart", cart)}, {"$set": {"expires_at": past}})
    return cart


@HOURS
async def test_jobs_on_a_machine_with_a_wrong_clock_expire_no_active_cart(settings: Settings, hours: int) -> None:
    settings = with_settings(settings, ShopSettings, cart_seconds=3600)
    async with running(settings) as right, running(settings, clock=skewed(hours)) as wrong:
        sku = await stock_up(right, units=10)
        live = [await new_cart(gateway, **{sku: 1}) for gateway in (right, wrong) for _ in range(3)]
        idle = await idle_cart(right, sku)

        for gateway in (wrong, right):
            for job in JOBS:
                await job.run(Job.Run(gateway.db, gateway.state.clock.now(), gateway.state.resources))

        assert [(await cart_of(right, cart))["status"] for cart in live] == ["ACTIVE"] * 6
        assert (await cart_of(right, idle))["status"] == "EXPIRED"
        assert await stock_of(right, sku) == (4, 6, 0)
        await assert_invariants(right)


@HOURS
async def test_carts_from_a_machine_with_a_wrong_clock_expire_on_time(settings: Settings, hours: int) -> None:
    settings = with_settings(settings, ShopSettings, cart_seconds=3600)
    async with running(settings) as right, running(settings, clock=skewed(hours)) as wrong:
        sku = await stock_up(right)
        cart = await new_cart(wrong, **{sku: 1})
        added = await right.result("addItemToCart", add_input(cart, sku))

        stored = await only(right.db["carts"], {"_id": key_in("Cart", cart)})

        assert abs(stored["expires_at"] - await server_time(right.db) - timedelta(hours=1)) < NEAR
        assert quantities(added["cart"]) == {sku: 2}


WRONG_CLOCK = """
from datetime import timedelta
from portico.gateway import clock
right = clock.machine_time
clock.machine_time = lambda: right() + timedelta(hours=HOURS)
"""


def _wrong_machine(folder: Path, hours: int) -> str:
    """A folder for PYTHONPATH that makes the machine clock of a process wrong."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WRONG_CLOCK.replace("HOURS", str(hours)))
    return str(folder)


@HOURS
async def test_a_worker_process_on_a_machine_with_a_wrong_clock_expires_only_idle_carts(
    settings: Settings, tmp_path: Path, hours: int
) -> None:
    settings = with_settings(settings, ShopSettings, cart_seconds=3600)
    async with running(settings) as gateway:
        sku = await stock_up(gateway)
        live, idle = await new_cart(gateway, **{sku: 1}), await idle_cart(gateway, sku)
        env = environment(replace(settings, job_seconds=0.1, log_level="info"))
        env["PYTHONPATH"] = _wrong_machine(tmp_path / "wrong", hours)

        with started(tmp_path, env, "worker") as process:
            await asyncio.to_thread(eventually, lambda: "clock corrected" in process.errors or None, 30.0)
            # The units return just after the cart has expired, while the worker still runs.
            async with asyncio.timeout(30):
                while await stock_of(gateway, sku) != (9, 1, 0):  # noqa: ASYNC110 - no signal
                    await asyncio.sleep(0.1)

        assert [(await cart_of(gateway, cart))["status"] for cart in (live, idle)] == ["ACTIVE", "EXPIRED"]
