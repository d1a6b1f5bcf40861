"""A settlement of another package: a pass takes a place in every concert, or in none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from bson import ObjectId

from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.resolvers.writes.marks import derived_id
from portico.resolvers.writes.settlements import Attempt, prepare, undo
from portico.resolvers.writes.settler import Settler
from portico.schema import Kind
from portico.testing import WAYS, Case, Given, Stage
from tests.extending.festival import PLACES
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, new_key
from tests.support.interruptions import before_every_command
from tests.support.library import serving
from tests.support.settling import Never

BUY = """mutation ($input: BuyPassInput!) { buyPass(input: $input) {
  __typename ... on PassPayload { sold { id } concerts { free } }
} }"""


@pytest.fixture
async def festival(
    settings: Settings, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[GatewayClient]:
    chosen = replace(settings, domains="festival")
    async with serving(monkeypatch, chosen, "festival", "tests.extending.festival", clock=clock) as gateway:
        yield gateway


async def add_concerts(gateway: GatewayClient, *places: int) -> list[str]:
    """Return the ids of concerts with so many places."""
    concerts = [{"_id": ObjectId(), "places": count, "free": count, "notes": []} for count in places]
    await gateway.db["concerts"].insert_many(concerts)
    return [Kind.encode_id("Concert", concert["_id"]) for concert in concerts]


async def buy(gateway: GatewayClient, concerts: list[str]) -> Any:
    return (await gateway.data(BUY, {"input": {"concertIds": concerts, "idempotencyKey": new_key()}}))["buyPass"]


async def free(gateway: GatewayClient) -> list[int]:
    return [concert["free"] async for concert in gateway.db["concerts"].find({}).sort("_id", 1)]


class Concerts(Stage):
    """Three concerts; the last one is sold out."""

    collections = ("concerts", "passes", "operations")
    selections = {"buyPass": "... on PassPayload { sold { id } concerts { free } }"}  # noqa: RUF012
    before: ClassVar[Any] = [5, 1, 0]
    cases = {  # noqa: RUF012
        "a pass": Case("buyPass", lambda stage: stage.concerts(2), "PassPayload", [4, 0, 0]),
        "a pass for a concert that is sold out": Case("buyPass", lambda stage: stage.concerts(3), "SoldOut", before),
    }

    async def build(self) -> None:
        self.ids = await add_concerts(self.gateway, 5, 1, 0)

    def concerts(self, count: int) -> Given:
        return {"concertIds": self.ids[:count]}

    async def state(self) -> Any:
        return await free(self.gateway)


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", Concerts.cases)
@pytest.mark.parametrize("way", WAYS)
async def test_a_call_has_one_effect(festival: GatewayClient, clock: SettableClock, case: str, way: str) -> None:
    await WAYS[way](Concerts(festival, clock), case, False)

    await assert_invariants(festival)


async def test_concurrent_callers_get_as_many_passes_as_there_are_places(festival: GatewayClient) -> None:
    concerts = await add_concerts(festival, 9, 4)

    bought = await asyncio.gather(*(buy(festival, concerts[::order]) for order in [1, -1] * 8))

    assert Counter(one["__typename"] for one in bought) == {"PassPayload": 4, "SoldOut": 12}
    assert await free(festival) == [5, 0]
    await assert_invariants(festival)


async def test_a_place_that_comes_back_before_the_call_sees_why_it_has_none_is_taken(festival: GatewayClient) -> None:
    """The note that held the place is gone then, so nothing in the concert says any more that it was there."""
    await add_concerts(festival, 1)
    concert = await festival.stored("concerts")
    part = PLACES.part(concert["_id"], allowed={"free": {"$gte": 1}}, taken={"free": -1})
    now = SystemClock().now()
    other = Attempt(ObjectId(), [part], now)
    assert await prepare(festival.db, other)

    async def give_back() -> None:
        await undo(festival.db, other)

    db = before_every_command(festival.db, give_back, collection="concerts", method="find_one")
    sold = await PLACES.settle_once(db, [part], {}, now=now, operation_id="r-one")

    assert sold is not None
    assert await free(festival) == [0]


async def test_a_place_that_is_noted_and_not_sold_is_free(festival: GatewayClient) -> None:
    [concert] = await add_concerts(festival, 2)
    note = {"key": "k", "record": ObjectId(), "at": SystemClock().now()}
    await festival.db["concerts"].update_one({}, {"$push": {"notes": note}, "$inc": {"free": -1}})

    shown = await festival.data("query ($id: ID!) { node(id: $id) { ... on Concert { free } } }", {"id": concert})

    assert shown["node"] == {"free": 2}


async def test_a_process_that_carries_out_the_same_call_does_not_sell_it_out(festival: GatewayClient) -> None:
    await add_concerts(festival, 1)
    [concert] = [one["_id"] async for one in festival.db["concerts"].find()]
    parts = [PLACES.part(concert, allowed={"free": {"$gte": 1}}, taken={"free": -1})]
    other = Attempt(derived_id("op", "passes 0"), parts, SystemClock().now())
    assert await prepare(festival.db, other)
    facts = {"owner": "ann", "concerts": [concert]}

    settling = asyncio.create_task(
        PLACES.settle_once(festival.db, parts, facts, now=SystemClock().now(), operation_id="op")
    )
    # The other one takes longer than a call waits for the notes of others.
    await asyncio.sleep(1.5)
    assert not settling.done()
    await undo(festival.db, other)

    sold = await settling
    assert sold is not None
    assert sold["owner"] == "ann"


async def test_a_pass_counts_before_its_notes_are_removed(festival: GatewayClient) -> None:
    concerts = await add_concerts(festival, 2, 1)
    festival.state.resources[Settler] = Never()

    bought, again = await buy(festival, concerts), await buy(festival, concerts)

    assert [concert["free"] for concert in bought["concerts"]] == [1, 0]
    assert again["__typename"] == "SoldOut"
    shown = await festival.data(
        "query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Concert { free } } }", {"ids": concerts}
    )
    assert shown["nodes"] == [{"free": 1}, {"free": 0}]
    await assert_invariants(festival)
