"""Leases: one owner at a time, until it expires or is released."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from portico.resolvers.documents import Database
from portico.resolvers.writes import leases

pytestmark = pytest.mark.both_drivers

NOON = datetime(2026, 11, 21, 12)  # noqa: DTZ001 - as the driver returns it, UTC without a zone
MINUTE = timedelta(minutes=1)


async def acquire(db: Database, owner: str, *, after: float = 0, name: str = "work") -> bool:
    return await leases.acquire(db, name, owner=owner, now=NOON + timedelta(seconds=after), duration=MINUTE)


# Leases


async def test_a_lease_excludes_others_until_it_expires(db: Database) -> None:
    assert await acquire(db, "one")

    assert not await acquire(db, "other", after=0)
    assert not await acquire(db, "other", after=59.999)
    assert await acquire(db, "other", after=60)
    assert not await acquire(db, "one", after=61)


async def test_an_owner_can_renew_its_lease(db: Database) -> None:
    assert await acquire(db, "one")
    assert await acquire(db, "one", after=59)

    assert not await acquire(db, "other", after=118)
    assert await acquire(db, "other", after=119)


async def test_only_its_owner_can_release_a_lease(db: Database) -> None:
    assert await acquire(db, "one")

    await leases.release(db, ["work"], owner="other")
    assert not await acquire(db, "other")
    await leases.release(db, ["work"], owner="one")
    assert await acquire(db, "other")


async def test_leases_with_different_names_are_independent(db: Database) -> None:
    assert await acquire(db, "one", name="work")
    assert await acquire(db, "other", name="other work")


async def test_exactly_one_of_many_concurrent_requests_gets_a_lease(db: Database) -> None:
    for after in (0, 60, 120):
        taken = await asyncio.gather(*(acquire(db, f"owner {n} after {after}", after=after) for n in range(20)))
        assert sorted(taken) == [False] * 19 + [True]
