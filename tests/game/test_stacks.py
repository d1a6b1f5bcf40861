"""Inventories of any size: what is in them, who sees them, and how items come, move and go."""

from __future__ import annotations

from typing import Any

import pytest

from portico.resolvers.game.inventories.stacks import MAX_QUANTITY
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.game.game_masters import GAME_MASTER
from tests.game.support.reading import LIST, granted, items
from tests.game.support.stacks import ask, assert_items, bag, call, give, goods, held, keyed, moved, offered, used
from tests.support.harness import MUTATIONS, GatewayClient
from tests.support.paging import nodes_of

STACK = """query ($owner: String!, $name: String! = "bag", $item: String!) {
  inventory(owner: $owner, name: $name) { stack(category: "thing", itemId: $item) { id name quantity } } }"""


# -------------------------------------------------------------------- grants


async def test_a_game_master_grants_items_with_everything_that_shows_them(gateway: GatewayClient) -> None:
    given = granted("sword", 3, description="Sharp.", image="/images/sword.png")

    made = await call(gateway, "grant", "master", given, GAME_MASTER)

    found = await gateway.data(STACK, {"owner": "mara", "item": "sword"}, token=gateway.token("mara"))
    assert found["inventory"]["stack"] == {"id": made["stack"]["id"], "name": "Sword", "quantity": 3}
    assert {key: made["stack"][key] for key in ("category", "itemId", "description", "image")} == {
        "category": "thing",
        "itemId": "sword",
        "description": "Sharp.",
        "image": "/images/sword.png",
    }
    await assert_items(gateway)


async def test_a_second_grant_adds_to_the_stack_and_renews_what_it_shows(gateway: GatewayClient) -> None:
    await call(gateway, "grant", "master", granted("sword", 3), GAME_MASTER)

    made = await call(gateway, "grant", "master", {**granted("sword", 4), "name": "Blade"}, GAME_MASTER)

    assert (made["stack"]["name"], made["stack"]["quantity"]) == ("Blade", 7)
    await assert_items(gateway)


async def test_only_a_game_master_grants_items(gateway: GatewayClient) -> None:
    answer = await ask(gateway, "grant", "mara", granted("sword"), MERCHANT)

    assert answer.codes == ["FORBIDDEN"]
    assert await held(gateway.db, "mara") == {}


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("quantity", 0, ["quantity"]),
        ("quantity", -1, ["quantity"]),
        ("category", "", ["category"]),
        ("itemId", "x" * 201, ["itemId"]),
        ("name", "\u200b", ["name"]),
        ("description", "x" * 10_001, ["description"]),
        ("image", "javascript:alert(1)", ["image"]),
        ("image", "//elsewhere.example/a.png", ["image"]),
        ("image", "https:///a.png", ["image"]),
        ("to", {"owner": "mara", "name": "x" * 65}, ["to", "name"]),
        ("to", {"owner": " mara", "name": "bag"}, ["to"]),
    ],
)
async def test_a_grant_with_an_invalid_value_names_it(
    gateway: GatewayClient, field: str, value: Any, path: list[str]
) -> None:
    refused = await call(gateway, "grant", "master", {**granted("sword"), field: value}, GAME_MASTER)

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", path)


async def test_a_stack_holds_up_to_the_largest_exact_integer(gateway: GatewayClient) -> None:
    await call(gateway, "grant", "master", granted("coin", MAX_QUANTITY), GAME_MASTER)

    refused = await call(gateway, "grant", "master", granted("coin", 1), GAME_MASTER)

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["quantity"])
    assert await held(gateway.db, "mara") == {"coin": MAX_QUANTITY}
    await assert_items(gateway)


# --------------------------------------------------------------------- lists


async def test_an_inventory_that_nobody_has_used_is_empty(gateway: GatewayClient) -> None:
    assert await items(gateway) == []


async def test_stacks_are_listed_by_category_and_item_or_by_name_in_any_case(gateway: GatewayClient) -> None:
    for category, item, name in (("b", "1", "Zebra"), ("a", "2", "apple"), ("a", "1", "Mango"), ("c", "9", "Banana")):
        await _granted(gateway, category, item, name)

    assert await items(gateway) == ["1", "2", "1", "9"]
    assert await items(gateway, sort="NAME") == ["2", "9", "1", "1"]
    assert await items(gateway, category="a") == ["1", "2"]
    assert await items(gateway, category="a", sort="NAME") == ["2", "1"]


async def _granted(gateway: GatewayClient, category: str, item: str, name: str, owner: str = "mara") -> None:
    given = keyed(to=bag(owner), category=category, itemId=item, name=name, quantity=1)
    assert (await call(gateway, "grant", "master", given, GAME_MASTER))["__typename"] == "StackPayload"


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("LONG", ["long bow", "long sword", "longboat"]),
        ("long ", ["long bow", "long sword"]),
        ("Épée", ["epee"]),
        (".*", [".*"]),
        ("", [".*", "long bow", "long sword", "longboat", "epee"]),
        ("nothing", []),
    ],
)
async def test_a_prefix_finds_names_in_any_case_and_is_no_pattern(
    gateway: GatewayClient, prefix: str, found: list[str]
) -> None:
    for item, name in (
        ("long sword", "Long Sword"),
        ("longboat", "Longboat"),
        ("long bow", "LONG BOW"),
        (".*", ".*"),
        ("epee", "épée"),
    ):
        await _granted(gateway, "thing", item, name)

    assert await items(gateway, prefix=prefix, sort="NAME") == found
    assert await items(gateway, prefix=prefix, category="thing", sort="NAME") == found
    assert await items(gateway, prefix=prefix, category="other") == []


async def test_pages_continue_where_the_page_before_ended(gateway: GatewayClient) -> None:
    for number in range(7):
        await give(gateway.db, "mara", f"item {number}")

    async def page(after: str | None) -> Any:
        data = await gateway.data(LIST, {"owner": "mara", "first": 3, "after": after}, token=gateway.token("mara"))
        return data["inventory"]["stacks"]

    assert [stack["itemId"] for stack in await nodes_of(page)] == [f"item {number}" for number in range(7)]


async def test_inventories_of_one_owner_are_separate(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "sword")
    await give(gateway.db, "mara", "crown", name="bank")

    assert await items(gateway) == ["sword"]
    assert await items(gateway, name="bank") == ["crown"]


# ---------------------------------------------------------------- visibility


@pytest.mark.parametrize("viewer", ["jonas", None])
async def test_the_inventory_of_somebody_else_does_not_exist(gateway: GatewayClient, viewer: str | None) -> None:
    await give(gateway.db, "mara", "sword")
    mine = await gateway.data(STACK, {"owner": "mara", "item": "sword"}, token=gateway.token("mara"))
    key = mine["inventory"]["stack"]["id"]
    token = None if viewer is None else gateway.token(viewer, [])

    assert await gateway.data(STACK, {"owner": "mara", "item": "sword"}, token=token) == {"inventory": None}
    assert await gateway.data(LIST, {"owner": "mara"}, token=token) == {"inventory": None}
    text = "query ($id: ID!) { node(id: $id) { id } nodes(ids: [$id]) { id } }"
    assert await gateway.data(text, {"id": key}, token=token) == {"node": None, "nodes": [None]}


@pytest.mark.parametrize("name", ["shop", "npc"])
async def test_everybody_sees_shops_and_npcs(gateway: GatewayClient, name: str) -> None:
    await give(gateway.db, "smithy", "sword", name=name)

    assert await items(gateway, None, "smithy", name=name) == ["sword"]


async def test_a_game_master_sees_every_inventory(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "sword")
    token = gateway.token("master", [GAME_MASTER])

    data = await gateway.data(LIST, {"owner": "mara"}, token=token)

    assert [stack["itemId"] for stack in data["inventory"]["stacks"]["nodes"]] == ["sword"]


# ------------------------------------------------------- consumption and moves


async def test_consumed_items_are_gone(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "potion", 3)

    left = await call(gateway, "consume", "mara", used("potion", 2))

    assert left["stack"]["quantity"] == 1
    await assert_items(gateway)


async def test_an_empty_stack_is_in_no_list(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "potion", 3)

    left = await call(gateway, "consume", "mara", used("potion", 3))

    assert left["stack"]["quantity"] == 0
    assert await items(gateway) == []
    found = await gateway.data(STACK, {"owner": "mara", "item": "potion"}, token=gateway.token("mara"))
    assert found == {"inventory": {"stack": None}}
    await give(gateway.db, "mara", "potion", 5)
    assert await held(gateway.db, "mara") == {"potion": 5}
    await assert_items(gateway)


@pytest.mark.parametrize("mutation", ["consume", "transferStack"])
@pytest.mark.parametrize(("item", "available"), [("potion", 3), ("nothing", 0)])
async def test_too_few_items_are_refused_with_their_number(
    gateway: GatewayClient, mutation: str, item: str, available: int
) -> None:
    await give(gateway.db, "mara", "potion", 3)
    given = used(item, 4) if mutation == "consume" else moved(item, 4)

    refused = await call(gateway, mutation, "mara", given)

    assert (refused["__typename"], refused["available"]) == ("NotEnough", available)
    assert await held(gateway.db, "mara") == {"potion": 3}
    await assert_items(gateway)


async def test_items_move_between_inventories_with_what_shows_them(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "potion", 3, description="Red.")

    first = await call(gateway, "transferStack", "mara", moved("potion", 2))
    second = await call(gateway, "transferStack", "mara", moved("potion", 1))

    assert (first["stack"]["name"], first["stack"]["description"], first["stack"]["quantity"]) == ("Potion", "Red.", 2)
    assert second["stack"]["quantity"] == 3
    assert (await held(gateway.db, "mara"), await held(gateway.db, "mara", "bank")) == ({}, {"potion": 3})
    await assert_items(gateway)


async def test_items_do_not_move_to_another_owner_or_to_where_they_are(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "potion", 3)

    to_other = await call(gateway, "transferStack", "mara", moved("potion", 1, to=bag("jonas")))
    to_same = await call(gateway, "transferStack", "mara", moved("potion", 1, to=bag("mara")))

    assert (to_other["__typename"], to_other["path"]) == ("InvalidInput", ["to", "owner"])
    assert (to_same["__typename"], to_same["path"]) == ("InvalidInput", ["to", "name"])


async def test_a_move_that_the_other_inventory_has_no_room_for_changes_nothing(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "coin", 2)
    await give(gateway.db, "mara", "coin", MAX_QUANTITY - 1, name="bank")

    refused = await call(gateway, "transferStack", "mara", moved("coin", 2))

    assert refused["__typename"] == "InvalidInput"
    assert await held(gateway.db, "mara") == {"coin": 2}
    await assert_items(gateway)


@pytest.mark.parametrize("mutation", ["consume", "transferStack"])
@pytest.mark.parametrize("name", ["bag", "shop"])
async def test_nobody_uses_the_items_of_others(gateway: GatewayClient, mutation: str, name: str) -> None:
    await give(gateway.db, "mara", "potion", 3, name=name)
    given = used("potion", 1) if mutation == "consume" else moved("potion", 1)
    given["from"] = bag("mara", name)

    refused = await call(gateway, mutation, "jonas", given)

    assert refused["__typename"] == "NotFound"
    assert await held(gateway.db, "mara", name) == {"potion": 3}


@pytest.mark.parametrize("mutation", ["consume", "transferStack", "offerTrade"])
async def test_an_anonymous_caller_changes_nothing(gateway: GatewayClient, mutation: str) -> None:
    given = {
        "consume": used("potion", 1),
        "transferStack": moved("potion", 1),
        "offerTrade": offered([goods("potion")]),
    }

    answer = await gateway.ask(MUTATIONS[mutation], {"input": given[mutation]}, token=None)

    assert answer.codes == ["UNAUTHENTICATED"]
