"""Trades between two owners: offer, accept, cancel."""

from __future__ import annotations

from typing import Any

import pytest

from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.roles import Role
from tests.game.support.stacks import assert_items, bag, call, give, goods, held, keyed, moved, offer, offered
from tests.support.harness import GatewayClient
from tests.support.paging import nodes_of

TRADE = "query ($id: ID!) { trade(id: $id) { state from fromInventory to toInventory } node(id: $id) { id } }"


@pytest.fixture
async def traders(gateway: GatewayClient) -> GatewayClient:
    """Mara has five swords, Jonas has ten coins."""
    await give(gateway.db, "mara", "sword", 5, description="Sharp.")
    await give(gateway.db, "jonas", "coin", 10)
    return gateway


def swords_for_coins(**given: Any) -> dict[str, Any]:
    """A valid `OfferTradeInput`: two of Mara's swords for six of Jonas' coins."""
    return {**offered([goods("sword", 2)], [goods("coin", 6)]), **given}


async def conclude(gateway: GatewayClient, mutation: str, subject: str, trade: str, *roles: Role) -> Any:
    return await call(gateway, mutation, subject, keyed(id=trade), *roles)


async def bags(gateway: GatewayClient) -> tuple[dict[str, int], dict[str, int]]:
    return await held(gateway.db, "mara"), await held(gateway.db, "jonas")


async def test_an_offer_holds_the_goods_until_both_sides_have_what_they_are_due(traders: GatewayClient) -> None:
    made = await call(traders, "offerTrade", "mara", swords_for_coins())

    assert made["trade"] == {
        "id": made["trade"]["id"],
        "state": "OFFERED",
        "from": "mara",
        "to": "jonas",
        "offers": [goods("sword", 2)],
        "wants": [goods("coin", 6)],
    }
    assert await bags(traders) == ({"sword": 3}, {"coin": 10})
    await assert_items(traders)

    accepted = await conclude(traders, "acceptTrade", "jonas", made["trade"]["id"])

    assert accepted["trade"]["state"] == "SETTLED"
    assert await bags(traders) == ({"sword": 3, "coin": 6}, {"sword": 2, "coin": 4})
    await assert_items(traders)


async def test_what_is_traded_shows_the_same_in_its_new_inventory(traders: GatewayClient) -> None:
    await conclude(traders, "acceptTrade", "jonas", await offer(traders, "mara", "jonas", [goods("sword", 2)]))

    text = '{ inventory(owner: "jonas") { stack(category: "thing", itemId: "sword") { name description quantity } } }'
    found = await traders.data(text, token=traders.token("jonas", []))
    assert found["inventory"]["stack"] == {"name": "Sword", "description": "Sharp.", "quantity": 2}


async def test_a_gift_wants_nothing_and_a_request_offers_nothing(traders: GatewayClient) -> None:
    gift = await offer(traders, "mara", "jonas", offers=[goods("sword", 5)])
    request = await offer(traders, "mara", "jonas", wants=[goods("coin", 1)])

    for trade in (gift, request):
        assert (await conclude(traders, "acceptTrade", "jonas", trade))["trade"]["state"] == "SETTLED"

    assert await bags(traders) == ({"coin": 1}, {"sword": 5, "coin": 9})
    await assert_items(traders)


@pytest.mark.parametrize("canceller", ["mara", "jonas"])
async def test_either_side_can_cancel_an_offer_and_the_goods_come_back(traders: GatewayClient, canceller: str) -> None:
    trade = await offer(traders, "mara", "jonas", [goods("sword", 5)], [goods("coin", 99)])

    cancelled = await conclude(traders, "cancelTrade", canceller, trade)

    assert cancelled["trade"]["state"] == "CANCELLED"
    assert await bags(traders) == ({"sword": 5}, {"coin": 10})
    await assert_items(traders)


async def test_a_request_can_be_cancelled(traders: GatewayClient) -> None:
    trade = await offer(traders, "mara", "jonas", wants=[goods("coin", 1)])

    assert (await conclude(traders, "cancelTrade", "jonas", trade))["trade"]["state"] == "CANCELLED"
    await assert_items(traders)


@pytest.mark.parametrize("first", ["acceptTrade", "cancelTrade"])
@pytest.mark.parametrize("second", ["acceptTrade", "cancelTrade"])
async def test_a_trade_is_accepted_or_cancelled_once(traders: GatewayClient, first: str, second: str) -> None:
    trade = await offer(traders, "mara", "jonas", [goods("sword", 2)], [goods("coin", 6)])
    await conclude(traders, first, "jonas", trade)
    before = await bags(traders)

    refused = await conclude(traders, second, "jonas", trade)

    assert refused["__typename"] == "Conflict"
    assert refused["message"] == f"The trade is {'accepted' if first == 'acceptTrade' else 'cancelled'} already."
    assert await bags(traders) == before
    await assert_items(traders)


async def test_an_offer_of_more_than_is_there_changes_nothing(traders: GatewayClient) -> None:
    await give(traders.db, "mara", "shield", 1)

    refused = await call(traders, "offerTrade", "mara", swords_for_coins(offers=[goods("shield"), goods("sword", 6)]))

    assert (refused["__typename"], refused["available"]) == ("NotEnough", 5)
    assert await held(traders.db, "mara") == {"sword": 5, "shield": 1}
    await assert_items(traders)


async def test_an_acceptance_without_the_wanted_goods_changes_nothing_and_can_be_repeated(
    traders: GatewayClient,
) -> None:
    trade = await offer(traders, "mara", "jonas", [goods("sword", 2)], [goods("coin", 9), goods("gem", 1)])

    refused = await conclude(traders, "acceptTrade", "jonas", trade)

    assert (refused["__typename"], refused["available"]) == ("NotEnough", 0)
    assert await bags(traders) == ({"sword": 3}, {"coin": 10})
    await assert_items(traders)
    await give(traders.db, "jonas", "gem")
    assert (await conclude(traders, "acceptTrade", "jonas", trade))["trade"]["state"] == "SETTLED"
    await assert_items(traders)


async def test_only_the_other_side_accepts_an_offer(traders: GatewayClient) -> None:
    trade = await offer(traders, "mara", "jonas", [goods("sword")], [goods("coin")])

    refused = await conclude(traders, "acceptTrade", "mara", trade)

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["id"])


@pytest.mark.parametrize("mutation", ["acceptTrade", "cancelTrade"])
async def test_a_trade_does_not_exist_for_others(traders: GatewayClient, mutation: str) -> None:
    trade = await offer(traders, "mara", "jonas", [goods("sword")], [goods("coin")])

    refused = await conclude(traders, mutation, "robin", trade)

    assert (refused["__typename"], refused["missingId"]) == ("NotFound", trade)
    hidden = await traders.data(TRADE, {"id": trade}, token=traders.token("robin", []))
    assert hidden == {"trade": None, "node": None}
    shown = await traders.data(TRADE, {"id": trade}, token=traders.token("jonas", []))
    sides = {"from": "mara", "fromInventory": "bag", "to": "jonas", "toInventory": "bag"}
    assert shown["trade"] == {"state": "OFFERED", **sides}


async def test_a_game_master_acts_for_shops_and_npcs(traders: GatewayClient) -> None:
    await give(traders.db, "smithy", "axe", 3, name="shop")
    given = offered([goods("axe")], [goods("coin", 4)], of=bag("smithy", "shop"))

    made = await call(traders, "offerTrade", "master", given, GAME_MASTER)
    await conclude(traders, "acceptTrade", "jonas", made["trade"]["id"])

    assert await held(traders.db, "smithy", "shop") == {"axe": 2, "coin": 4}
    assert await held(traders.db, "jonas") == {"axe": 1, "coin": 6}
    await assert_items(traders)


async def test_nobody_offers_the_goods_of_others(traders: GatewayClient) -> None:
    refused = await call(traders, "offerTrade", "jonas", swords_for_coins(to=bag("robin")))

    assert refused["__typename"] == "NotFound"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"offers": [], "wants": []}, ["offers"]),
        ({"to": bag("mara", "bank")}, ["to", "owner"]),
        ({"offers": [goods("sword", 0)]}, ["offers", "0", "quantity"]),
        ({"wants": [goods("coin"), goods("coin", 2)]}, ["wants", "1"]),
        ({"wants": [goods("sword")]}, ["wants"]),
        ({"wants": [goods(f"{number}") for number in range(21)]}, ["wants"]),
        ({"wants": [goods("coin", category="")]}, ["wants", "0", "category"]),
        ({"to": bag("jonas", "")}, ["to", "name"]),
    ],
)
async def test_an_offer_with_an_invalid_value_names_it(
    traders: GatewayClient, given: dict[str, Any], path: list[str]
) -> None:
    refused = await call(traders, "offerTrade", "mara", swords_for_coins(**given))

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", path)
    assert await bags(traders) == ({"sword": 5}, {"coin": 10})


async def test_a_side_has_up_to_twenty_items(traders: GatewayClient) -> None:
    many = [f"item {number}" for number in range(20)]
    for item in many:
        await give(traders.db, "mara", item, 2)
        await give(traders.db, "jonas", f"other {item}", 2)
    trade = await offer(traders, "mara", "jonas", list(map(goods, many)), [goods(f"other {item}") for item in many])

    assert (await conclude(traders, "acceptTrade", "jonas", trade))["trade"]["state"] == "SETTLED"

    mine, theirs = await bags(traders)
    assert {**dict.fromkeys(many, 1), **{f"other {item}": 1 for item in many}, "sword": 5} == mine
    assert len(theirs) == 41
    await assert_items(traders)


async def test_the_viewer_lists_trades_of_both_sides_latest_first(traders: GatewayClient) -> None:
    mine = await offer(traders, "mara", "jonas", [goods("sword")])
    theirs = await offer(traders, "jonas", "mara", [goods("coin")])
    await offer(traders, "jonas", "robin", [goods("coin")])
    await call(traders, "transferStack", "mara", moved("sword"))
    text = """query ($after: String) { viewer { trades(first: 1, after: $after) {
      nodes { id } pageInfo { hasNextPage endCursor } } } }"""

    async def page(after: str | None) -> Any:
        data = await traders.data(text, {"after": after}, token=traders.token("mara", []))
        return data["viewer"]["trades"]

    assert [trade["id"] for trade in await nodes_of(page)] == [theirs, mine]
