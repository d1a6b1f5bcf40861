"""The harness for tests of domains finds a call that has two effects, also if every answer and invariant is right."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from bson import ObjectId

from portico.store import Database
from portico.testing import Given, Kit, crash_matrix, try_mutation
from portico.writes import marks
from tests.accounts.support.accounts import open_account
from tests.extending import booking
from tests.extending.shows import open_account_of_the_box_office, open_show
from tests.support.harness import GatewayClient, SettableClock


async def _two_seats(gateway: GatewayClient) -> tuple[Given, Given]:
    # All calls find the account that the first one would open.
    await open_account_of_the_box_office(gateway)
    show, account = await open_show(gateway), await open_account(gateway.db, 1_000)
    one, other = ({"showId": show["showId"], "seat": seat, "accountId": account} for seat in (1, 2))
    return one, other


KIT = Kit(adds=("shows", "Show"), mutations={"bookSeat": ""}, inputs={"bookSeat": _two_seats})


async def _try_in_all_places(gateway: GatewayClient, clock: SettableClock) -> None:
    await try_mutation(gateway, clock, KIT, "bookSeat", "crash, then a retry", whole=True)


async def _stop_everywhere(gateway: GatewayClient, clock: SettableClock) -> None:
    async def prepare(key: str) -> dict[str, Any]:
        one, _ = await _two_seats(gateway)
        return {"input": {**one, "idempotencyKey": key}}

    await crash_matrix(gateway, clock, KIT.text(gateway, "bookSeat"), prepare)


async def _pay_again(db: Database, held: booking.BookingDocument, now: datetime) -> booking.BookingDocument:
    """Pays with another id in each attempt of a call, and stores it."""
    operation = marks.random_operation_id()
    await db[booking.BOOKINGS.name].update_one({"_id": held["_id"]}, {"$set": {"operation": operation}})
    return await FINISH(db, held | {"operation": operation}, now)


async def _create_again(db: Database, held: booking.BookingDocument, now: datetime) -> booking.BookingDocument:
    """Creates another document in each attempt of a call."""
    show = await booking.SHOWS.of(db).find_one({"_id": held["show"]})
    assert show is not None
    await db[booking.SHOWS.name].insert_one({**show, "_id": ObjectId()})
    return await FINISH(db, held, now)


FINISH = booking.finish
ATTEMPTS = pytest.mark.parametrize("attempt", [_try_in_all_places, _stop_everywhere])


@ATTEMPTS
async def test_a_call_with_one_effect_passes(theater: GatewayClient, clock: SettableClock, attempt: Any) -> None:
    await attempt(theater, clock)

    states = [one["state"] async for one in theater.db["bookings"].find({})]
    assert {*states} == {"BOOKED"}


@ATTEMPTS
@pytest.mark.parametrize("finish", [_pay_again, _create_again])
async def test_a_call_with_two_effects_fails(
    theater: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, attempt: Any, finish: Any
) -> None:
    monkeypatch.setattr(booking, "finish", finish)

    with pytest.raises(AssertionError):
        await attempt(theater, clock)
