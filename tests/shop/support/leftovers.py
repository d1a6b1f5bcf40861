"""What old crashes leave to the jobs of the shop."""

from __future__ import annotations

from bson import ObjectId

from portico.resolvers.documents import Document
from portico.resolvers.shop.account_payments import shop_account_id
from portico.resolvers.writes.settler import Settler
from portico.schema.kinds import Kind
from tests.accounts.support.accounts import deposit, deposit_input, open_account
from tests.shop.support.shop import new_cart, paid_by, stock_up
from tests.support.harness import MUTATIONS, GatewayClient
from tests.support.ids import key_in
from tests.support.interruptions import crashing
from tests.support.leftovers import LONG_AGO, OP, Left, set_values


async def _move(gateway: GatewayClient) -> tuple[str, str, Document]:
    sku = await stock_up(gateway)
    cart = key_in("Cart", await new_cart(gateway, **{sku: 1}))
    return (
        sku,
        cart,
        {"id": OP[2:], "op": OP, "sku": sku, "cart_id": cart, "kind": "return", "quantity": 1, "at": LONG_AGO},
    )


async def move_in_stock(gateway: GatewayClient) -> Left:
    sku, _, move = await _move(gateway)
    await set_values(gateway, "stock", sku, under_way=[move])
    return "stock", {"under_way.op": OP}


async def move_in_cart(gateway: GatewayClient) -> Left:
    _, cart, move = await _move(gateway)
    await set_values(gateway, "carts", cart, decided=[{**move, "is_taken": True}])
    return "carts", {"decided.op": OP}


async def flipped_stock(gateway: GatewayClient) -> Left:
    await set_values(gateway, "stock", await stock_up(gateway), flipped_at=LONG_AGO)
    return "stock", {"flipped_at": LONG_AGO}


async def closed_stock(gateway: GatewayClient) -> Left:
    sku = await stock_up(gateway)
    closed = {"deletion": OP, "product_id": ObjectId(), "at": LONG_AGO, "is_final": False}
    await set_values(gateway, "stock", sku, closed=closed)
    return "stock", {"closed.is_final": False}


async def idle_cart(gateway: GatewayClient) -> Left:
    cart = key_in("Cart", await new_cart(gateway, **{await stock_up(gateway): 1}))
    await set_values(gateway, "carts", cart, expires_at=LONG_AGO)
    return "carts", {"status": {"$in": ["ACTIVE", "EXPIRING"]}}


async def uncounted_order(gateway: GatewayClient) -> Left:
    """Leave an order whose products do not know yet that they were bought together."""
    skus = [await stock_up(gateway) for _ in range(2)]
    account = await open_account(gateway.db, 5000)
    cart = await new_cart(gateway, **dict.fromkeys(skus, 1))
    await gateway.result("checkout", paid_by(cart, account))
    await gateway.state.resources.of(Settler).settled(gateway.db)
    return "orders", {"uncounted": True}


async def old_cart(gateway: GatewayClient) -> Left:
    cart = key_in("Cart", await new_cart(gateway))
    await set_values(gateway, "carts", cart, status="EXPIRED", expires_at=None, last_modified=LONG_AGO)
    return "carts", {"status": "EXPIRED"}


async def expiring_cart(gateway: GatewayClient) -> Left:
    cart = key_in("Cart", await new_cart(gateway, **{await stock_up(gateway): 1}))
    await set_values(gateway, "carts", cart, status="EXPIRING", expires_at=None, due=LONG_AGO)
    return "carts", {"status": "EXPIRING"}


async def pending_cart(gateway: GatewayClient) -> Left:
    account = await open_account(gateway.db, 5000)
    cart = await new_cart(gateway, **{await stock_up(gateway): 1})
    with crashing(gateway, 7):
        await gateway.ask(MUTATIONS["checkout"], {"input": paid_by(cart, account)})
    await set_values(gateway, "carts", key_in("Cart", cart), due=LONG_AGO)
    return "carts", {"status": "PENDING"}


async def sold_cart(gateway: GatewayClient) -> Left:
    """Leave a cart that is sold, but whose order was not written."""
    account = await open_account(gateway.db, 5000)
    sku = await stock_up(gateway)
    for _ in range(2):
        # The first checkout opens the account of the shop.
        cart = await new_cart(gateway, **{sku: 1})
        given = paid_by(cart, account)
        await gateway.result("checkout", given)
    await gateway.state.resources.of(Settler).settled(gateway.db)
    key = key_in("Cart", cart)
    sold = await gateway.stored("carts", {"_id": key})
    await gateway.db["orders"].delete_one({"cart_id": key})
    await gateway.db["stock"].update_one(
        {"_id": sku}, {"$inc": {"reserved": 1, "sold": -1}, "$set": {"under_way": sold["settlement"]}}
    )
    await set_values(gateway, "carts", key, due=LONG_AGO)
    return "carts", {"due": {"$exists": True}, "_id": key}


async def cancelled_order(gateway: GatewayClient) -> Left:
    account = await open_account(gateway.db, 1_000_000)
    sku = await stock_up(gateway)
    given = paid_by(await new_cart(gateway, **{sku: 1}), account)
    order = (await gateway.result("checkout", given))["order"]["id"]
    # The shop must be able to pay for copies of the order, too.
    await deposit(gateway, deposit_input(Kind.encode_id("Account", shop_account_id("USD")), 1_000_000))
    with crashing(gateway, 5) as faulty:
        await gateway.ask(MUTATIONS["cancelOrder"], {"input": {"orderId": order}})
    assert faulty.has_crashed
    await set_values(gateway, "orders", key_in("Order", order), due=LONG_AGO)
    return "orders", {"due": {"$exists": True}}
