"""`totalCount` of the lists that an index leads to: the rows that the caller sees, up to a bound, by one command."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from portico.resolvers.documents import Database
from portico.resolvers.shop.orders import PLACED, SHIPPED
from portico.schema import connections
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.roles import Role
from tests.content.support.site import create_page
from tests.game.support.scene import add_temple
from tests.game.support.stacks import give, goods, offer
from tests.shop.support.shop import new_order, stock_up
from tests.support.documents import only
from tests.support.explaining import explain
from tests.support.harness import GatewayClient
from tests.support.sending import names, sent

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
# The text before the arguments of a list, how many levels it opens, the roles of its caller, and how many rows it has.
LISTS: dict[str, tuple[str, int, list[Role], int]] = {
    "own orders": ("viewer { orders(%s)", 1, [], 3),
    "all orders": ("orders(%s)", 0, [MERCHANT], 5),
    "orders with a status": ("orders(status: SHIPPED, %s)", 0, [MERCHANT], 2),
    "trades": ("viewer { trades(%s)", 1, [], 3),
    "trades in a state": ("viewer { trades(state: OFFERED, %s)", 1, [], 3),
    "stacks": ('inventory(owner: "ann") { stacks(%s)', 1, [], 5),
    "stacks of a category": ('inventory(owner: "ann") { stacks(category: "thing", %s)', 1, [], 4),
    "stacks with a prefix": ('inventory(owner: "ann") { stacks(namePrefix: "ax", %s)', 1, [], 2),
    "revisions": ('content(path: "/about") { ... on Page { revisions(%s)', 2, [Role.EDITOR], 3),
    "characters": ("characters(%s)", 0, [GAME_MASTER], 2),
    "characters of a player": ('characters(owner: "ann", %s)', 0, [GAME_MASTER], 1),
}
EXPECTED = {name: rows for name, (*_, rows) in LISTS.items()}


def query(name: str, arguments: str, selection: str) -> str:
    path, depth, *_ = LISTS[name]
    return f"{{ {path % arguments} {{ {selection} }} {'}' * depth} }}"


async def page(gateway: GatewayClient, name: str, arguments: str, selection: str) -> Any:
    token = gateway.token("ann", LISTS[name][2])
    found = await gateway.data(query(name, arguments, selection), token=token)
    while not found.keys() & {"totalCount", "nodes", "pageInfo"}:
        (found,) = found.values()
    return found


async def add_orders(db: Database, *owners: str, status: str = PLACED) -> None:
    count = await db["orders"].count_documents({})
    order = {"cart_id": "c", "items": [], "total": 1, "currency": "USD", "payment_reference": "r", "address": None}
    state = {"status": status, "history": [], "version": 1, "fence": 0, "schema_version": 2}
    await db["orders"].insert_many(
        [
            {"_id": f"{number:032x}", "owner": owner, "placed_at": BEGIN + timedelta(number), **order, **state}
            for number, owner in enumerate(owners, count)
        ]
    )


@pytest.fixture
async def lists(gateway: GatewayClient) -> GatewayClient:
    db = gateway.db
    await add_orders(db, "ann", "bo", "ann")
    await add_orders(db, "ann", "bo", status=SHIPPED)
    for item in ("axe", "ax", "coin", "bow"):
        await give(db, "ann", item, 10)
    await give(db, "ann", "elixir", category="potion")
    await give(db, "bo", "coin", 10)
    await db["game.stacks"].insert_one(
        {"_id": "0" * 40, "owner": "ann", "inventory": "bag", "category": "thing", "item_id": "none", "quantity": 0}
        | {"name": "Axis", "name_key": "axis", "description": None, "image": None, "granted": 1, "consumed": 1}
    )
    for owner, other in (("ann", "bo"), ("ann", "cid"), ("bo", "ann"), ("bo", "cid")):
        await offer(gateway, owner, other, [goods("coin")])
    assert (await create_page(gateway, slug="about"))["id"]
    revision = await only(db["cms.revisions"])
    key = revision["_id"].partition(".")[0]
    await db["cms.revisions"].insert_many(
        [{**revision, "_id": f"{key}.{number}", "number": number} for number in (2, 3)]
    )
    await add_temple(db, "ann")
    return gateway


@pytest.mark.parametrize("executor", ["compiled", "reference"])
async def test_the_count_is_the_number_of_rows_of_all_pages(
    lists: GatewayClient, executor: Literal["compiled", "reference"]
) -> None:
    lists.state.executor.name = executor
    for name, expected in EXPECTED.items():
        ids: list[str] = []
        cursor = ""
        while True:
            found = await page(
                lists,
                name,
                f"first: 2{cursor}",
                "totalCount totalCountIsExact nodes { id } pageInfo { endCursor hasNextPage }",
            )
            assert (found["totalCount"], found["totalCountIsExact"]) == (expected, True), name
            ids += [one["id"] for one in found["nodes"]]
            if not found["pageInfo"]["hasNextPage"]:
                break
            cursor = f', after: "{found["pageInfo"]["endCursor"]}"'
        assert len(set(ids)) == len(ids) == expected, name
        assert (await page(lists, name, "last: 1", "totalCount"))["totalCount"] == expected, name


async def test_a_count_stops_at_the_bound(lists: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_COUNTED", 3)
    for name, expected in EXPECTED.items():
        found = await page(lists, name, "first: 1", "totalCount totalCountIsExact")

        assert found == {"totalCount": min(expected, 3), "totalCountIsExact": expected <= 3}, name


async def test_a_count_examines_an_index_up_to_the_bound(lists: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_COUNTED", 1)
    for name in LISTS:
        commands = await sent(lists, page(lists, name, "first: 1", "totalCount"))
        plans = [plan for one in commands if "aggregate" in one for plan in await explain(lists.db, one)]

        (plan,) = plans
        assert not plan.scans_collection, name
        assert not plan.sorts_in_memory, name
        assert plan.keys_examined <= 2, name
        assert plan.documents_examined <= (0 if "orders" in name or name == "revisions" else 2), name


async def test_a_count_is_one_command_more_if_it_is_selected(lists: GatewayClient) -> None:
    def own(selection: str) -> Any:
        return page(lists, "own orders", "first: 1", selection)

    without = names(await sent(lists, own("nodes { id }")))
    counted = names(await sent(lists, own("nodes { id } totalCount again: totalCount totalCountIsExact")))

    assert without == ["find orders"]
    assert counted == ["aggregate orders", "find orders"]


async def test_the_counts_of_several_lists_share_a_command(lists: GatewayClient) -> None:
    text = """{
      viewer { a: orders { totalCount } b: trades { totalCount } c: trades(state: SETTLED) { totalCount } }
      one: inventory(owner: "ann") { stacks { totalCount } }
      two: inventory(owner: "ann", name: "bank") { stacks { totalCount } }
    }"""
    token = lists.token("ann", [])

    commands = names(await sent(lists, lists.data(text, token=token)))

    assert commands.count("aggregate orders") == 1
    # The pages of each collection share a command, too.
    assert commands.count("aggregate game.trades") == commands.count("aggregate game.stacks") == 2
    found = await lists.data(text, token=token)
    assert found["viewer"] == {"a": {"totalCount": 3}, "b": {"totalCount": 3}, "c": {"totalCount": 0}}
    assert (found["one"], found["two"]) == ({"stacks": {"totalCount": 5}}, {"stacks": {"totalCount": 0}})


async def test_each_alias_of_a_count_weighs_as_much_as_it_can_examine(gateway: GatewayClient) -> None:
    def text(lists: int) -> str:
        return f"{{ viewer {{ {' '.join(f'a{one}: orders(first: 1) {{ totalCount }}' for one in range(lists))} }} }}"

    assert (await gateway.ask(text(19))).codes == []
    assert (await gateway.ask(text(20))).codes == ["OPERATION_TOO_COMPLEX"]


async def test_a_count_shows_nothing_that_the_caller_does_not_see(lists: GatewayClient) -> None:
    revisions = query("revisions", "first: 1", "totalCount")
    of_an_npc = query("trades", "first: 1", "totalCount nodes { id }")
    await give(lists.db, "npc:smith", "coin", 10)
    await lists.db["game.trades"].update_many({"owners": "bo"}, {"$set": {"owners": ["npc:smith", "ann"]}})

    reader = await lists.data(revisions, token=lists.token("bo", []))
    smith = await lists.data(of_an_npc, token=lists.token("npc:smith", []))
    other = await lists.data(query("own orders", "first: 1", "totalCount"), token=lists.token("cid", []))
    refused = await lists.ask(query("all orders", "first: 1", "totalCount"), token=lists.token("bo", []))
    hidden = await lists.data(query("stacks", "first: 1", "totalCount"), token=lists.token("bo", []))

    assert reader == {"content": {"revisions": {"totalCount": 0}}}
    assert smith == {"viewer": {"trades": {"totalCount": 0, "nodes": []}}}
    assert other == {"viewer": {"orders": {"totalCount": 0}}}
    assert (refused.codes, refused.body["data"]) == (["FORBIDDEN"], {"orders": None})
    assert hidden == {"inventory": None}


@pytest.mark.usefixtures("provider")
async def test_the_counts_of_a_live_query_follow_what_is_written(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    text = """query @live {
      orders(first: 1) { totalCount }
      placed: orders(first: 1, status: PLACED) { totalCount }
      viewer { orders(first: 1) { totalCount } }
      inventory(owner: "tester") { stacks(first: 1) { totalCount } }
    }"""

    def expected(orders: int, placed: int, stacks: int) -> Any:
        return {
            "orders": {"totalCount": orders},
            "placed": {"totalCount": placed},
            "viewer": {"orders": {"totalCount": orders}},
            "inventory": {"stacks": {"totalCount": stacks}},
        }

    async with gateway.subscription(text) as answers:
        assert await anext(answers) == expected(0, 0, 0)
        await give(gateway.db, "tester", "coin")
        assert await anext(answers) == expected(0, 0, 1)
        order = (await new_order(gateway, **{sku: 1}))["order"]["id"]
        while (shown := await anext(answers)) != expected(1, 1, 1):
            assert shown["inventory"] == {"stacks": {"totalCount": 1}}
        await gateway.result("shipOrder", {"orderId": order})
        while (shown := await anext(answers)) != expected(1, 0, 1):
            assert shown["viewer"] == {"orders": {"totalCount": 1}}


@pytest.mark.usefixtures("provider")
async def test_the_payload_of_a_write_counts_what_it_has_written(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    first = (await new_order(gateway, **{sku: 1}))["order"]["id"]
    text = """mutation ($id: ID!) {
      shipOrder(input: { orderId: $id }) { ... on OrderPayload { viewer { orders(first: 1) { totalCount } } } }
    }"""

    assert (await gateway.data(text, {"id": first}))["shipOrder"] == {"viewer": {"orders": {"totalCount": 1}}}
