"""A write of another package calls a write of accounts: seats are booked if and only if they are paid for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from bson import ObjectId

from portico.accounts import transfer
from portico.gateway.settings import Settings
from portico.schema import Kind
from portico.testing import WAYS, Case, Given, Stage
from portico.writes import marks
from tests.accounts.support.accounts import assert_nothing_in_flight, balances, open_account
from tests.support import databases
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, assert_invariants, new_key, run_jobs
from tests.support.ids import key_in
from tests.support.library import serving

from .booking import USHER, BoxOffice
from .shows import BOX_OFFICE, PRICE, open_show

BOOK = """mutation ($input: BookSeatInput!) { bookSeat(input: $input) {
  __typename ... on SeatTaken { seat } ... on UserError { message }
  ... on BookingPayload { booking { seat state payment { amount { amount } } } }
} }"""
CHANGED = "subscription ($id: ID!) { bookingChanged(id: $id) { state } }"
NODE = "query ($id: ID!) { node(id: $id) { id } }"
DISCUSS = "mutation ($input: OpenDiscussionInput!) { openDiscussion(input: $input) { __typename } }"


async def book(gateway: GatewayClient, show: dict[str, Any], account: str, seat: int = 1, **more: Any) -> Any:
    given = {"showId": show["showId"], "seat": seat, "accountId": account, "idempotencyKey": new_key(), **more}
    return (await gateway.data(BOOK, {"input": given}))["bookSeat"]


class Seats(Stage):
    """Two accounts of a caller, one of which has too little money for a seat."""

    collections = ("accounts", "transfers", "shows", "bookings", "operations")
    # A repeated call leaves nothing to the jobs.
    finishes = True
    selections = {"bookSeat": "... on BookingPayload { booking { state } }"}  # noqa: RUF012
    before: ClassVar[Any] = ([], [100, PRICE - 1])
    cases = {  # noqa: RUF012
        "paid": Case("bookSeat", lambda stage: stage.seat(0), "BookingPayload", (["BOOKED"], [70, PRICE - 1, PRICE])),
        "refused": Case("bookSeat", lambda stage: stage.seat(1), "InsufficientFunds", ([], [100, PRICE - 1, 0])),
    }

    async def build(self) -> None:
        db = self.gateway.db
        self.show = await open_show(self.gateway)
        self.accounts = [await open_account(db, 100), await open_account(db, PRICE - 1)]

    def seat(self, account: int) -> Given:
        return {"showId": self.show["showId"], "seat": 1, "accountId": self.accounts[account]}

    async def state(self) -> Any:
        states = [booking["state"] async for booking in self.gateway.db["bookings"].find({})]
        # The first booking opens the account of the box office.
        opened = await self.gateway.db["accounts"].count_documents({"owner": None})
        return states, await balances(self.gateway.db, *self.accounts, *[BOX_OFFICE] * opened)


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", Seats.cases)
@pytest.mark.parametrize("way", WAYS)
async def test_a_call_has_one_effect(theater: GatewayClient, clock: SettableClock, case: str, way: str) -> None:
    # A soak tries crashes at all places.
    await WAYS[way](Seats(theater, clock), case, IS_SOAK and way.startswith("crash, then"))

    await assert_invariants(theater)
    await assert_nothing_in_flight(theater.db)


async def test_ushers_see_the_bookings_of_their_venue(theater: GatewayClient) -> None:
    await book(theater, await open_show(theater), await open_account(theater.db, 100))
    booking = Kind.encode_id("Booking", (await theater.db["bookings"].find_one({}))["_id"])  # type: ignore[index]
    own, other = theater.as_caller("eve", USHER, venue="globe"), theater.as_caller("eve", USHER, venue="rose")
    seen = [
        (await caller.data(NODE, {"id": booking}))["node"]
        for caller in (theater, own, other, theater.as_caller("eve", USHER), theater.as_caller("eve", venue="globe"))
    ]

    assert seen == [{"id": booking}, {"id": booking}, None, None, None]


async def test_a_seat_is_paid_for_once(theater: GatewayClient) -> None:
    show, account = await open_show(theater), await open_account(theater.db, 100)
    key = new_key()

    booked = [await book(theater, show, account, idempotencyKey=key) for _ in range(2)]

    payment = {"amount": {"amount": PRICE}}
    assert booked[0] == booked[1]
    assert booked[0]["booking"] == {"seat": 1, "state": "BOOKED", "payment": payment}
    assert await balances(theater.db, account, BOX_OFFICE) == [70, 30]
    await assert_invariants(theater)


async def test_refusals_are_the_members_of_accounts_and_leave_the_seat_free(theater: GatewayClient) -> None:
    show, poor = await open_show(theater), await open_account(theater.db, PRICE - 1)
    of_another, euros = [
        await open_account(theater.db, 100, **more) for more in ({"owner": "another"}, {"currency": "EUR"})
    ]

    refused = [(await book(theater, show, one))["__typename"] for one in (poor, of_another, euros)]
    nowhere = await book(theater, show, poor, seat=4)
    booked = await book(theater, show, await open_account(theater.db, 100))
    taken = await book(theater, show, await open_account(theater.db, 100))

    assert refused == ["InsufficientFunds", "NotFound", "InvalidInput"]
    assert nowhere["__typename"] == "InvalidInput"
    assert booked["__typename"] == "BookingPayload"
    assert (taken["__typename"], taken["seat"]) == ("SeatTaken", 1)
    assert await balances(theater.db, poor, BOX_OFFICE) == [PRICE - 1, PRICE]
    await assert_invariants(theater)


async def test_one_of_many_callers_gets_and_pays_a_seat(theater: GatewayClient) -> None:
    show = await open_show(theater)
    accounts = [await open_account(theater.db, 100) for _ in range(8)]

    booked = await asyncio.gather(*(book(theater, show, account) for account in accounts))

    kinds = [one["__typename"] for one in booked]
    assert (kinds.count("BookingPayload"), kinds.count("SeatTaken")) == (1, 7)
    assert sorted(await balances(theater.db, *accounts)) == [70, *[100] * 7]
    await assert_invariants(theater)


async def test_an_operation_can_make_several_transfers(theater: GatewayClient) -> None:
    source, destination = await open_account(theater.db, 100), await open_account(theater.db)
    operation_id = marks.random_operation_id()

    made = [
        await transfer(
            theater.db,
            owner="tester",
            source_id=key_in("Account", source),
            destination_id=key_in("Account", destination),
            amount=10,
            currency="USD",
            now=theater.state.clock.now(),
            operation_id=operation_id,
            purpose=purpose,
        )
        for purpose in ("", "tip", "tip")
    ]

    assert [made[0]["_id"] == made[1]["_id"], made[1]["_id"] == made[2]["_id"]] == [False, True]
    assert await balances(theater.db, source, destination) == [80, 20]


async def test_the_job_finishes_what_a_crash_has_left_and_subscribers_see_it(
    theater: GatewayClient, clock: SettableClock
) -> None:
    show, account = await open_show(theater), await open_account(theater.db, 100)
    held = {
        "_id": ObjectId(),
        "show": show["show"],
        "seat": 1,
        "booker": "tester",
        "state": "HELD",
        "held": clock.now(),
    }
    held |= {"account": key_in("Account", account), "operation": marks.random_operation_id()}
    await theater.db["bookings"].insert_one(held)
    booking = Kind.encode_id("Booking", held["_id"])

    assert await run_jobs(theater, clock, "finish-bookings") == 0
    async with theater.subscription(CHANGED, {"id": booking}) as events:
        clock.advance(seconds=6)
        assert await run_jobs(theater, clock, "finish-bookings") == 1
        assert await anext(events) == {"bookingChanged": {"state": "BOOKED"}}


async def test_the_booker_sees_each_change_of_all_their_bookings(theater: GatewayClient) -> None:
    show, account = await open_show(theater), await open_account(theater.db, 100)
    async with (
        theater.subscription("subscription { bookingsChanged { seat state } }") as events,
        theater.as_caller("another").subscription("subscription { bookingsChanged { seat } }") as others,
    ):
        await book(theater, show, account, seat=1)
        await book(theater, show, account, seat=2)
        seats = [(await anext(events))["bookingsChanged"]["seat"] for _ in range(4)]
        other = await open_account(theater.db, 100, owner="another")
        await book(theater.as_caller("another"), show, other, seat=3)
        first = await anext(others)

    assert seats == [1, 1, 2, 2]
    assert first == {"bookingsChanged": {"seat": 3}}


async def test_the_viewer_lists_and_counts_their_bookings(theater: GatewayClient) -> None:
    listed = "{ viewer { bookings(first: 1) { totalCount nodes { seat } pageInfo { hasNextPage } } } }"
    show, account = await open_show(theater), await open_account(theater.db, 100)
    for seat in (1, 2):
        await book(theater, show, account, seat=seat)
    other = theater.as_caller("another")

    found = [(await caller.data(listed))["viewer"]["bookings"] for caller in (theater, other)]
    counted = await theater.db.command(
        "explain",
        {"aggregate": "bookings", "pipeline": [{"$match": {"booker": "tester"}}, {"$count": "n"}], "cursor": {}},
    )

    assert (found[0]["totalCount"], found[0]["pageInfo"]) == (2, {"hasNextPage": True})
    assert found[1] == {"totalCount": 0, "nodes": [], "pageInfo": {"hasNextPage": False}}
    assert "FETCH" not in str(counted)


async def test_a_show_can_have_a_discussion_of_another_domain(theater: GatewayClient) -> None:
    show = await open_show(theater)
    opened = await theater.data(DISCUSS, {"input": {"subjectId": show["showId"], "storage": "EMBEDDED"}})

    assert opened["openDiscussion"]["__typename"] == "DiscussionPayload"


async def test_the_metrics_count_what_the_service_has_counted(theater: GatewayClient) -> None:
    await book(theater, await open_show(theater), await open_account(theater.db, 100))

    assert theater.state.resources.of(BoxOffice).sold == 1


async def test_a_database_that_was_used_before_gets_the_indexes_of_the_domain(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_indexed", {settings.database})
    chosen = replace(settings, domains="accounts,booking")
    async with serving(monkeypatch, chosen, "booking", "tests.extending.booking") as gateway:
        indexes = await gateway.db["bookings"].index_information()

    assert set(indexes) == {"_id_", "show_1_seat_1", "state_1_held_1", "booker_1_held_-1__id_-1"}


async def test_the_booker_is_notified(
    settings: Settings, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    notified = "{ viewer { notifications { nodes { reason node { ... on Booking { seat } } } } } }"
    chosen = replace(settings, domains="accounts,booking,notifications")
    async with serving(monkeypatch, chosen, "booking", "tests.extending.booking", clock=clock) as gateway:
        await run_jobs(gateway, clock, "write-notifications")
        await book(gateway, await open_show(gateway), await open_account(gateway.db, 100), seat=2)
        await run_jobs(gateway, clock, "write-notifications")

        (row,) = (await gateway.data(notified))["viewer"]["notifications"]["nodes"]

    assert row == {"reason": "SEAT_BOOKED", "node": {"seat": 2}}
