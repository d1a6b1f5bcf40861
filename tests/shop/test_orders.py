"""Orders: their status and its history, addresses, the merchant's list, and cancellations."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from portico.schema.catalog.merchants import MERCHANT
from tests.accounts.support.accounts import balances, deposit, deposit_input, open_account
from tests.catalog.support.cases import id_and_nonce_of
from tests.shop.support.order_stages import Orders
from tests.shop.support.shop import (
    Provider,
    address_input,
    buy_as,
    checkout_input,
    new_cart,
    new_order,
    order_input,
    paid_by,
    stock_up,
)
from tests.support.harness import MUTATIONS, GatewayClient

ORDER = "query ($id: ID!) { order(id: $id) { status history { status } address { name postalCode country } } }"
ALL = """
query ($status: OrderStatus, $first: Int, $after: String, $last: Int, $before: String) {
  orders(status: $status, first: $first, after: $after, last: $last, before: $before) {
    nodes { id status } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  }
}
"""


async def _order(gateway: GatewayClient, **units: int) -> str:
    found: str = (await new_order(gateway, **units or {await stock_up(gateway): 1}))["order"]["id"]
    return found


@pytest.mark.usefixtures("provider")
async def test_an_order_is_shipped_and_delivered_and_keeps_its_history(gateway: GatewayClient) -> None:
    order = await _order(gateway)

    shipped = await gateway.result("shipOrder", order_input(order, trackingNumber="RR123"))
    delivered = await gateway.result("deliverOrder", order_input(order))

    assert (shipped["order"]["status"], shipped["order"]["trackingNumber"]) == ("SHIPPED", "RR123")
    history = delivered["order"]["history"]
    assert [one["status"] for one in history] == ["PLACED", "SHIPPED", "DELIVERED"]
    assert sorted(one["at"] for one in history) == [one["at"] for one in history]


@pytest.mark.usefixtures("provider")
async def test_a_step_that_the_status_does_not_allow_returns_the_order(gateway: GatewayClient) -> None:
    order = await _order(gateway)

    early = await gateway.result("deliverOrder", order_input(order))
    await gateway.result("shipOrder", order_input(order))
    twice = await gateway.result("shipOrder", order_input(order))
    late = await gateway.result("cancelOrder", order_input(order))

    assert early == {
        "__typename": "OrderStatusConflict",
        "message": "The order is placed.",
        "order": {"id": order, "status": "PLACED"},
    }
    assert [twice["order"]["status"], late["order"]["status"]] == ["SHIPPED", "SHIPPED"]


@pytest.mark.parametrize("refunds", ["hang", "refused"])
async def test_a_refund_that_fails_is_repeated_by_a_job(
    gateway: GatewayClient, provider: Provider, refunds: str
) -> None:
    order = await _order(gateway)
    provider.refunds = refunds

    cancelled = await gateway.result("cancelOrder", order_input(order))
    await gateway.run_jobs("finish-orders", hours=2)

    assert (cancelled["order"]["status"], cancelled["order"]["refundedAt"]) == ("CANCELLED", None)
    assert provider.taken_in_all() > 0

    provider.refunds = "given"
    await gateway.run_jobs("finish-orders", hours=2)

    assert provider.taken_in_all() == 0
    found = await gateway.data("query ($id: ID!) { order(id: $id) { refundedAt } }", {"id": order})
    assert found["order"]["refundedAt"] is not None


async def test_units_of_a_deleted_product_are_not_sold_again(gateway: GatewayClient, provider: Provider) -> None:
    sku = await stock_up(gateway, units=5)
    order = await _order(gateway, **{sku: 3})
    await gateway.payload("deleteProduct", await id_and_nonce_of(gateway, sku))

    await gateway.result("cancelOrder", order_input(order))

    stock = await gateway.stored("stock", {"_id": sku})
    assert (stock["available"], stock["sold"], stock["restocked"]) == (0, 0, 0)
    assert provider.taken_in_all() == 0


@pytest.mark.usefixtures("provider")
async def test_an_address_is_shown_to_the_buyer_and_merchants(gateway: GatewayClient) -> None:
    buyer, other = gateway.token("buyer", []), gateway.token("other", [])
    merchant = gateway.token("merchant", [MERCHANT])
    order = await buy_as(gateway, buyer, address=address_input(name=" Ada Byron ", postalCode=""))

    seen = {"name": "Ada Byron", "postalCode": None, "country": "GB"}
    for token, expected in ((buyer, seen), (merchant, seen)):
        assert (await gateway.data(ORDER, {"id": order}, token=token))["order"]["address"] == expected
    for stranger in (other, None):
        assert (await gateway.data(ORDER, {"id": order}, token=stranger))["order"] is None


@pytest.mark.usefixtures("provider")
async def test_the_address_of_an_order_without_an_owner_is_for_merchants(gateway: GatewayClient) -> None:
    order = await buy_as(gateway, None, address=address_input())

    assert (await gateway.data(ORDER, {"id": order}, token=None))["order"]["address"] is None
    merchant = gateway.token("merchant", [MERCHANT])
    assert (await gateway.data(ORDER, {"id": order}, token=merchant))["order"]["address"]["name"] == "Ada Byron"


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"country": "de"}, ["address", "country"]),
        ({"country": "XX"}, ["address", "country"]),
        ({"name": " "}, ["address", "name"]),
        ({"city": "x" * 201}, ["address", "city"]),
        ({"postalCode": "1" * 21}, ["address", "postalCode"]),
        ({"line2": "a\u0000b"}, ["address", "line2"]),
    ],
)
async def test_an_address_is_checked_before_anything_is_paid(
    gateway: GatewayClient, provider: Provider, wrong: dict[str, Any], path: list[str]
) -> None:
    cart = await new_cart(gateway, **{await stock_up(gateway): 1})
    text = "mutation ($input: CheckoutInput!) { checkout(input: $input) { __typename ... on InvalidInput { path } } }"

    refused = await gateway.data(text, {"input": checkout_input(cart, address=address_input(**wrong))})

    assert refused["checkout"] == {"__typename": "InvalidInput", "path": path}
    assert provider.asked == 0


@pytest.mark.usefixtures("provider")
async def test_a_merchant_lists_all_orders_by_status_both_ways(gateway: GatewayClient) -> None:
    sku, orders = await stock_up(gateway), []
    for _ in range(4):
        orders.append(await _order(gateway, **{sku: 1}))
        gateway.clock.advance(seconds=1)
    await gateway.result("shipOrder", order_input(orders[1]))

    first = (await gateway.data(ALL, {"first": 2}))["orders"]
    second = (await gateway.data(ALL, {"first": 2, "after": first["pageInfo"]["endCursor"]}))["orders"]
    back = (await gateway.data(ALL, {"last": 2, "before": second["pageInfo"]["startCursor"]}))["orders"]
    placed = (await gateway.data(ALL, {"status": "PLACED"}))["orders"]

    assert [one["id"] for page in (first, second) for one in page["nodes"]] == orders[::-1]
    assert back["nodes"] == first["nodes"]
    assert [one["id"] for one in placed["nodes"]] == [orders[3], orders[2], orders[0]]


@pytest.mark.usefixtures("provider")
async def test_only_a_merchant_lists_and_ships_orders_of_others(gateway: GatewayClient) -> None:
    order, other = await _order(gateway), gateway.token("other", [])

    assert (await gateway.ask(ALL, {}, token=other)).codes == ["FORBIDDEN"]
    for mutation in ("shipOrder", "deliverOrder"):
        refused = await gateway.ask(MUTATIONS[mutation], {"input": order_input(order)}, token=other)
        assert refused.codes == ["FORBIDDEN"]
    assert (await gateway.result("cancelOrder", order_input(order), token=other))["__typename"] == "NotFound"


@pytest.mark.usefixtures("provider")
async def test_the_payload_leads_to_the_stock_and_the_list(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=5)
    order = await _order(gateway, **{sku: 2})
    text = """
    mutation ($input: CancelOrderInput!) {
      cancelOrder(input: $input) {
        ... on OrderPayload {
          order { items { product { stock { available sold } } } }
          orderEdge { cursor node { id status } }
          viewer { orders { edges { cursor } } }
        }
      }
    }
    """

    payload = (await gateway.data(text, {"input": order_input(order)}))["cancelOrder"]

    assert payload["order"]["items"] == [{"product": {"stock": {"available": 5, "sold": 0}}}]
    assert payload["orderEdge"]["node"] == {"id": order, "status": "CANCELLED"}
    assert payload["viewer"]["orders"]["edges"] == [{"cursor": payload["orderEdge"]["cursor"]}]


async def test_an_order_of_an_older_version_has_been_placed(gateway: GatewayClient, provider: Provider) -> None:
    order = await _order(gateway)
    names = ("status", "history", "version", "fence", "address", "schema_version")
    await gateway.db["orders"].update_one({}, {"$unset": dict.fromkeys(names, "")})

    found = (await gateway.data(ORDER, {"id": order}))["order"]
    cancelled = await gateway.result("cancelOrder", order_input(order))

    assert (found["status"], found["history"], found["address"]) == ("PLACED", [{"status": "PLACED"}], None)
    assert (cancelled["order"]["status"], provider.taken_in_all()) == ("CANCELLED", 0)


async def test_a_large_deposit_does_not_keep_the_money_from_being_given_back_later(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, 1_000)
    cart = await new_cart(gateway, **{await stock_up(gateway, price=1_000): 1})
    paid = await gateway.result("checkout", paid_by(cart, account))
    full = 2**53 - 1
    await deposit(gateway, deposit_input(account, full))

    cancelled = await gateway.result("cancelOrder", order_input(paid["order"]["id"]))
    assert cancelled["order"]["refundedAt"] is None
    assert await balances(gateway.db, account) == [full]

    other = await open_account(gateway.db, 0)
    spent = {"sourceId": account, "destinationId": other, "amount": {"amount": 5_000}, "idempotencyKey": "spent"}
    assert (await gateway.result("transfer", spent))["__typename"] == "TransferPayload"
    await gateway.run_jobs("finish-orders", hours=2)

    assert await balances(gateway.db, account) == [full - 4_000]


async def test_one_of_cancelling_and_shipping_wins(gateway: GatewayClient) -> None:
    scene = Orders(gateway, gateway.clock)
    for name in ("by token", "by account"):
        await scene.restore()
        order = scene.orders[name]
        calls = [("cancelOrder", order_input(order)) for _ in range(3)] + [("shipOrder", order_input(order))] * 2

        results = await asyncio.gather(*(gateway.result(mutation, given) for mutation, given in calls))

        won = [one for one in results if one["__typename"] == "OrderPayload"]
        status = won[0]["order"]["status"]
        # The two calls to ship the order have one key.
        assert len(won) == (1 if status == "CANCELLED" else 2)
        assert {one["order"]["status"] for one in results} == {status}
        await scene.run_jobs()
        units, statuses, taken, left = await scene.state()
        assert statuses[name] == status
        back = 2 if status == "CANCELLED" else 0
        assert units == (4 + back, 6 - back)
        assert (4_000 - taken) + (left - 3_000) == back * 1_000
        await scene.assert_settled()
