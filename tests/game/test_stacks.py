"""Inventories of any size and owner: what is in them, who sees them, and how items come, move and go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from portico.resolvers.errors import InvalidInput
from portico.resolvers.game.inventories.stack_checks import find_unbalanced_items
from portico.resolvers.game.inventories.stack_imports import StackRecord, import_stack
from portico.resolvers.game.inventories.stacks import MAX_COUNTED, MAX_QUANTITY, Place, identity, stack_id
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.game.game_masters import GAME_MASTER
from tests.game.support.stacks import ask, assert_items, bag, call, give, goods, held, keyed, moved, offered, used
from tests.support.harness import MUTATIONS, GatewayClient
from tests.support.paging import nodes_of

LIST = """query ($owner: String!, $name: String! = "bag", $category: String, $prefix: String,
    $sort: StackSort! = CATEGORY, $first: Int, $after: String) {
  inventory(owner: $owner, name: $name) {
    owner name
    stacks(category: $category, namePrefix: $prefix, sort: $sort, first: $first, after: $after) {
      nodes { category itemId name quantity } pageInfo { hasNextPage endCursor } } } }"""
STACK = """query ($owner: String!, $name: String! = "bag", $item: String!) {
  inventory(owner: $owner, name: $name) { stack(category: "thing", itemId: $item) { id name quantity } } }"""


async def items(gateway: GatewayClient, subject: str | None = "mara", owner: str = "mara", **given: Any) -> list[str]:
    """The item ids of a list, as this subject sees it."""
    token = None if subject is None else gateway.token(subject, [])
    data = await gateway.data(LIST, {"owner": owner, **given}, token=token)
    return [stack["itemId"] for stack in data["inventory"]["stacks"]["nodes"]]


def granted(item: str, quantity: int = 1, **given: Any) -> dict[str, Any]:
    """A valid `GrantInput` for Mara's bag."""
    return keyed(to=bag("mara"), name=item.title(), **goods(item, quantity), **given)


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


@pytest.mark.parametrize("subject", ["outfitter", "npc:outfitter"])
async def test_no_player_owns_the_inventories_of_a_shop_or_an_npc_whatever_the_subject(
    gateway: GatewayClient, subject: str
) -> None:
    for name in ("shop", "vault"):
        await give(gateway.db, "npc:outfitter", "rope", 5, name=name)
    shop = bag("npc:outfitter", "shop")

    answers = [
        await call(gateway, "consume", subject, used("rope", of=shop)),
        await call(gateway, "transferStack", subject, moved("rope", of=shop, to=bag("npc:outfitter", "bank"))),
        await call(gateway, "offerTrade", subject, offered([goods("rope")], of=shop, to=bag("bo"))),
    ]
    shelf = await items(gateway, subject, "npc:outfitter", name="shop")
    vault = await gateway.data(LIST, {"owner": "npc:outfitter", "name": "vault"}, token=gateway.token(subject, []))

    assert [one["__typename"] for one in answers] == ["NotFound"] * 3
    assert shelf == ["rope"]
    assert vault == {"inventory": None}
    assert await held(gateway.db, "npc:outfitter", "shop") == {"rope": 5}


async def test_a_game_master_moves_the_goods_of_a_shop_from_its_name_to_the_npc(gateway: GatewayClient) -> None:
    """Shops of an earlier version have names like those of players."""
    await give(gateway.db, "outfitter", "rope", 5, name="shop")
    shop, new = bag("outfitter", "shop"), bag("npc:outfitter", "shop")

    refused = await call(gateway, "transferStack", "outfitter", moved("rope", 5, of=shop, to=new))
    made = await call(gateway, "transferStack", "master", moved("rope", 5, of=shop, to=new), GAME_MASTER)
    other = await call(gateway, "transferStack", "master", moved("rope", of=new, to=bag("bo")), GAME_MASTER)

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["to", "owner"])
    assert made["stack"]["quantity"] == 5
    assert (other["__typename"], other["path"]) == ("InvalidInput", ["to", "owner"])
    assert await held(gateway.db, "npc:outfitter", "shop") == {"rope": 5}
    await assert_items(gateway)


async def test_grants_and_consumption_end_before_their_sums_overflow(gateway: GatewayClient) -> None:
    """Someone grants and consumes the largest quantity again and again: 128 times fit into 2^60."""
    await call(gateway, "grant", "master", granted("coin", 5), GAME_MASTER)
    sums = {"granted": MAX_COUNTED - 5, "consumed": MAX_COUNTED - 10}
    await gateway.db["game.stacks"].update_one({"item_id": "coin"}, {"$set": sums})

    refused = await call(gateway, "grant", "master", granted("coin", 6), GAME_MASTER)
    filled = await call(gateway, "grant", "master", granted("coin", 5), GAME_MASTER)
    consumed = await call(gateway, "consume", "mara", used("coin", 6))
    stuck = await call(gateway, "consume", "mara", used("coin", 4 + 1))

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["quantity"])
    assert refused["message"].startswith("At most 2^60 items can be granted to a stack in all; 'coin' has got 1,152,9")
    assert filled["stack"]["quantity"] == 10
    assert consumed["stack"]["quantity"] == 4
    assert (stuck["__typename"], stuck["path"]) == ("InvalidInput", ["stack", "quantity"])
    assert await held(gateway.db, "mara") == {"coin": 4}


async def test_an_import_refuses_what_the_sum_of_grants_cannot_hold(gateway: GatewayClient) -> None:
    await give(gateway.db, "outfitter", "rope", 1, name="shop", category="tool")
    await gateway.db["game.stacks"].update_one({}, {"$set": {"granted": MAX_COUNTED}})

    with pytest.raises(InvalidInput, match="At most 2\\^60"):
        await import_stack(
            gateway.db, StackRecord(Place("outfitter", "shop"), "tool", "rope", "Rope", 1), now=datetime.now(UTC)
        )


async def test_the_doctor_adds_up_more_items_than_64_bits_can_count(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "coin", 5)
    await give(gateway.db, "bo", "coin", 5)
    for number in range(12):
        place = Place(f"owner {number}", "bag")
        stack = {
            "_id": stack_id(place, "thing", "coin"),
            **identity(place, "thing", "coin"),
            "name": "Coin",
            "quantity": MAX_QUANTITY,
            "granted": MAX_COUNTED,
            "consumed": MAX_COUNTED - MAX_QUANTITY,
            "notes": [],
        }
        await gateway.db["game.stacks"].insert_one(stack)
    await assert_items(gateway)

    await gateway.db["game.stacks"].update_one({"owner": "mara"}, {"$inc": {"quantity": 1}})

    problems = [one.text async for one in find_unbalanced_items(gateway.db)]
    assert problems == [
        f"there are {12 * MAX_QUANTITY + 11:,}, but {12 * MAX_QUANTITY + 10:,} were granted and not consumed"
    ]
