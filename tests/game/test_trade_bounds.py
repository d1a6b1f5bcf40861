"""Open offers are few for each pair of owners, and expire. Old trades are deleted."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.mongo.faults import Crash
from portico.resolvers.game.inventories.stacks import MAX_QUANTITY
from portico.resolvers.game.inventories.trade_bounds import MAX_OPEN
from portico.resolvers.game.settings import GameSettings
from tests.game.support.stacks import (
    ask,
    assert_items,
    bag,
    call,
    give,
    goods,
    held,
    keyed,
    moved,
    offer,
    offered,
    used,
)
from tests.support.documents import stored
from tests.support.domains import INVARIANTS
from tests.support.harness import GatewayClient, SettableClock, stops
from tests.support.ids import key_in
from tests.support.interruptions import crashing

Given = dict[str, Any]
TRADES = "query ($state: TradeState) { viewer { trades(state: $state, first: 100) { nodes { id state expiresAt } } } }"


async def trades(gateway: GatewayClient, subject: str, state: str | None = None) -> list[Any]:
    data = await gateway.data(TRADES, {"state": state}, token=gateway.token(subject))
    return list(data["viewer"]["trades"]["nodes"])


def request(to: str = "jonas") -> Given:
    return offered([], [goods("coin")], to=bag(to))


async def test_nobody_fills_the_list_of_another_player(gateway: GatewayClient) -> None:
    found = await asyncio.gather(*(call(gateway, "offerTrade", "mara", request()) for _ in range(60)))
    other = await call(gateway, "offerTrade", "mara", request("bo"))

    assert Counter(one["__typename"] for one in found) == {"TradePayload": MAX_OPEN, "LimitReached": 60 - MAX_OPEN}
    assert other["__typename"] == "TradePayload"
    assert len(await trades(gateway, "jonas")) == MAX_OPEN
    message = next(one["message"] for one in found if one["__typename"] == "LimitReached")
    assert message == "You already have 20 open offers to 'jonas'. Cancel one, or wait until one is accepted."


async def test_a_concluded_offer_gives_its_place_back(gateway: GatewayClient) -> None:
    await give(gateway.db, "jonas", "coin", 5)
    for _ in range(MAX_OPEN):
        await call(gateway, "offerTrade", "mara", request())
    first, second, *_ = await trades(gateway, "jonas")

    await call(gateway, "cancelTrade", "jonas", keyed(id=first["id"]))
    await call(gateway, "acceptTrade", "jonas", keyed(id=second["id"]))
    made = [await call(gateway, "offerTrade", "mara", request()) for _ in range(3)]

    assert [one["__typename"] for one in made] == ["TradePayload", "TradePayload", "LimitReached"]
    await assert_items(gateway)


async def test_a_refused_offer_takes_no_place(gateway: GatewayClient) -> None:
    for _ in range(MAX_OPEN + 1):
        assert (await call(gateway, "offerTrade", "mara", offered([goods("sword")])))["__typename"] == "NotEnough"

    assert (await call(gateway, "offerTrade", "mara", request()))["__typename"] == "TradePayload"


async def test_offers_that_crash_anywhere_take_no_place_for_long(gateway: GatewayClient, clock: SettableClock) -> None:
    """Each crash leaves at most a claim, and a call that needs its place removes it after a minute."""
    crashes = 0
    for stop in stops():
        with crashing(gateway, stop) as faulty:
            await ask(gateway, "offerTrade", "mara", request())
        if not faulty.has_crashed:
            break
        crashes += 1
    assert crashes > 2
    await gateway.run_jobs()
    clock.advance(seconds=61)
    already = len(await trades(gateway, "jonas", "OFFERED"))

    made = [await call(gateway, "offerTrade", "mara", request()) for _ in range(MAX_OPEN - already + 1)]

    assert Counter(one["__typename"] for one in made) == {"TradePayload": MAX_OPEN - already, "LimitReached": 1}
    assert len(await trades(gateway, "jonas", "OFFERED")) == MAX_OPEN
    await assert_items(gateway)


async def test_a_repeated_offer_finds_its_trade_even_if_the_places_are_used_up_since(gateway: GatewayClient) -> None:
    given = request()
    # The trade is the last write of the call. No outcome is stored besides.
    made = (await call(gateway, "offerTrade", "mara", given))["trade"]
    await call(gateway, "cancelTrade", "jonas", keyed(id=made["id"]))
    for _ in range(MAX_OPEN):
        await call(gateway, "offerTrade", "mara", request())
    gateway.clock.advance(seconds=31)

    again = await call(gateway, "offerTrade", "mara", given)

    assert again["__typename"] == "TradePayload"
    assert (again["trade"]["id"], again["trade"]["state"]) == (made["id"], "CANCELLED")


async def test_trades_are_listed_by_state(gateway: GatewayClient) -> None:
    await give(gateway.db, "jonas", "coin", 5)
    ids = [await offer(gateway, "mara", "jonas", [], [goods("coin")]) for _ in range(3)]
    await call(gateway, "acceptTrade", "jonas", keyed(id=ids[0]))
    await call(gateway, "cancelTrade", "mara", keyed(id=ids[1]))

    found = {state: [one["id"] for one in await trades(gateway, "jonas", state)] for state in STATES}

    assert found == {"OFFERED": [ids[2]], "ACCEPTED": [], "SETTLED": [ids[0]], "CANCELLED": [ids[1]]}
    (open_,) = await trades(gateway, "mara", "OFFERED")
    assert open_["expiresAt"] is not None
    assert {one["expiresAt"] is None for one in await trades(gateway, "mara", "SETTLED")} == {True}


STATES = ("OFFERED", "ACCEPTED", "SETTLED", "CANCELLED")


async def test_an_offer_that_nobody_accepts_expires_and_its_goods_go_back(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "sword", 3)
    trade = await offer(gateway, "mara", "jonas", [goods("sword", 2)], [])
    gateway.clock.advance(days=31)

    late = await call(gateway, "acceptTrade", "jonas", keyed(id=trade))
    await gateway.run_jobs("expire-trades")

    assert (late["__typename"], late["message"]) == ("Conflict", "The offer has expired.")
    assert [one["state"] for one in await trades(gateway, "jonas")] == ["CANCELLED"]
    assert await held(gateway.db, "mara") == {"sword": 3}
    await assert_items(gateway)


async def test_offers_stay_if_they_do_not_expire(gateway: GatewayClient) -> None:
    gateway.state.resources[GameSettings] = GameSettings(trade_days=0, trade_history_days=0)
    await give(gateway.db, "jonas", "coin", 5)
    trade = await offer(gateway, "mara", "jonas", [], [goods("coin", 2)])
    await gateway.run_jobs(days=1_000)
    (open_,) = await trades(gateway, "jonas", "OFFERED")
    accepted = await call(gateway, "acceptTrade", "jonas", keyed(id=trade))
    await gateway.run_jobs()

    assert open_["expiresAt"] is None
    assert accepted["trade"]["state"] == "SETTLED"
    assert len(await trades(gateway, "mara")) == 1


async def test_an_expiry_that_crashes_anywhere_is_repeated_and_accepted_offers_stay_accepted(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    await give(gateway.db, "mara", "sword", 100)
    for stop in stops():
        await offer(gateway, "mara", "jonas", [goods("sword", 2)], [])
        clock.advance(days=31)
        with crashing(gateway, stop) as faulty:
            try:
                await gateway.run_jobs("expire-trades")
            except Crash:
                assert faulty.has_crashed
        await gateway.run_jobs("expire-trades")
        await gateway.run_jobs("finish-trades", seconds=6)

        assert await held(gateway.db, "mara") == {"sword": 100}
        await assert_items(gateway)
        if not faulty.has_crashed:
            break


async def test_an_expired_offer_without_room_for_its_goods_waits_a_day_and_the_doctor_names_it(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    await give(gateway.db, "mara", "coin", MAX_QUANTITY)
    stuck = await offer(gateway, "mara", "jonas", [goods("coin", 5)], [])
    await give(gateway.db, "mara", "coin", 3)
    await give(gateway.db, "mara", "sword")
    await offer(gateway, "mara", "jonas", [goods("sword")], [])
    clock.advance(days=31)

    async def states() -> list[str]:
        await gateway.run_jobs("expire-trades")
        return [one["state"] for one in await trades(gateway, "jonas")]

    assert await states() == ["CANCELLED", "OFFERED"]
    wrong = [problem for invariant in INVARIANTS async for problem in invariant.check(gateway.db)]
    await call(gateway, "consume", "mara", used("coin", 3))
    assert await states() == ["CANCELLED", "OFFERED"]
    clock.advance(days=1)

    assert await states() == ["CANCELLED", "CANCELLED"]
    (problem,) = wrong
    assert problem.subject == f"trade {key_in('Trade', stuck)}"
    assert "the inventory 'bag' of 'mara' had no room for its goods at 20" in problem.text
    assert await held(gateway.db, "mara") == {"coin": MAX_QUANTITY, "sword": 1}
    await assert_items(gateway)


async def test_an_acceptance_and_an_expiry_at_once_have_one_outcome(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "sword", 10)
    ids = [await offer(gateway, "mara", "jonas", [goods("sword")], []) for _ in range(10)]
    await gateway.db["game.trades"].update_many({}, {"$set": {"created_at": gateway.clock.now() - timedelta(days=40)}})
    gateway.state.resources[GameSettings] = GameSettings(trade_days=50)
    accepting = [call(gateway, "acceptTrade", "jonas", keyed(id=trade)) for trade in ids]

    async def expire() -> list[Any]:
        gateway.state.resources[GameSettings] = GameSettings(trade_days=30)
        await gateway.run_jobs("expire-trades")
        return []

    await asyncio.gather(*accepting, expire())

    states = Counter([one["state"] for one in await trades(gateway, "jonas")])
    assert set(states) <= {"SETTLED", "CANCELLED"}
    assert await held(gateway.db, "jonas") == ({"sword": states["SETTLED"]} if states["SETTLED"] else {})
    await assert_items(gateway)


async def test_old_trades_are_deleted_and_goods_stay_where_they_are(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "sword", 10)
    gateway.state.resources[GameSettings] = GameSettings(trade_days=0)
    settled = await offer(gateway, "mara", "jonas", [goods("sword")], [])
    open_ = await offer(gateway, "mara", "jonas", [goods("sword")], [])
    await call(gateway, "transferStack", "mara", moved("sword"))
    await call(gateway, "acceptTrade", "jonas", keyed(id=settled))
    gateway.clock.advance(days=366)
    recent = await offer(gateway, "mara", "jonas", [goods("sword")], [])
    late = await call(gateway, "acceptTrade", "jonas", keyed(id=open_))

    await gateway.run_jobs("prune-trades")

    left = await gateway.db["game.trades"].find({}, {"_id": 1}).to_list()
    # The offer is as old, but it was accepted just now.
    assert {one["_id"] for one in left} == {key_in("Trade", open_), key_in("Trade", recent)}
    assert late["trade"]["state"] == "SETTLED"
    assert await held(gateway.db, "jonas") == {"sword": 2}
    again = await call(gateway, "cancelTrade", "mara", keyed(id=settled))
    assert again["__typename"] == "NotFound"
    await assert_items(gateway)


@pytest.mark.parametrize("stage", [2, 3])
async def test_the_record_of_a_settlement_in_flight_is_never_deleted(gateway: GatewayClient, stage: int) -> None:
    """The process dies after its decision, or before. Its notes are in the stacks, and its record has no date yet."""
    await give(gateway.db, "mara", "sword", 10)
    with crashing(gateway, stage):
        await ask(gateway, "transferStack", "mara", moved("sword", 4))
    noted = await stored(gateway.db, "game.stacks", {"notes.at": {"$exists": True}})
    # As an earlier version has stored it.
    await gateway.db["game.trades"].update_many({}, {"$unset": {"concluded_at": ""}})
    gateway.clock.advance(days=400)
    before = await gateway.db["game.trades"].count_documents({})

    await gateway.run_jobs("prune-trades")
    assert await gateway.db["game.trades"].count_documents({}) == before
    await gateway.run_jobs("finish-trades")
    await gateway.run_jobs("prune-trades")

    assert await gateway.db["game.trades"].find_one({"_id": noted["notes"][0]["record"], "state": "MOVED"}) is None
    both = [(await held(gateway.db, "mara", name)).get("sword", 0) for name in ("bag", "bank")]
    assert sum(both) == 10
    await assert_items(gateway)


async def test_an_offer_of_an_earlier_version_has_no_claim_and_can_be_cancelled(gateway: GatewayClient) -> None:
    trade = await offer(gateway, "mara", "jonas", [], [goods("coin")])
    await gateway.db["game.trades"].update_one({}, {"$unset": {"claim": ""}})
    await gateway.db["game.trade_pairs"].delete_many({})

    cancelled = await call(gateway, "cancelTrade", "mara", keyed(id=trade))

    assert cancelled["trade"]["state"] == "CANCELLED"
    assert await gateway.db["game.trade_pairs"].find_one({"_id": ObjectId()}) is None
