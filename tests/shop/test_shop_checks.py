"""The problems that `portico doctor` reports for inconsistent or damaged carts, orders, accounts and transfers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId
from rich.console import Console

from portico.gateway.cli.data import check_invariant, import_files
from portico.gateway.mongo.faults import Crash
from portico.gateway.settings import Settings
from portico.resolvers.documents import Document
from portico.resolvers.problems import Invariant, Problem
from portico.resolvers.shop.payment_checks import find_payments_without_order
from tests.accounts.support.accounts import open_account
from tests.catalog.support.catalog import add_categories, add_products, product
from tests.shop.support.shop import Provider, checkout_input, new_cart, paid_by, stock_of, stock_up
from tests.support.domains import INVARIANTS
from tests.support.harness import MUTATIONS, GatewayClient, assert_invariants
from tests.support.ids import key_in
from tests.support.interruptions import database_of, interrupted


async def examined(gateway: GatewayClient, *, repair: bool = False) -> tuple[list[str], int]:
    """Return the printed problems, and the number of problems that are left."""
    printed = io.StringIO()
    left = [
        await check_invariant(gateway.db, invariant, Console(file=printed), repair=repair) for invariant in INVARIANTS
    ]
    return [line.strip() for line in printed.getvalue().splitlines() if line[:4] not in {"ok  ", "FAIL"}], sum(left)


@pytest.fixture
async def ids(gateway: GatewayClient) -> dict[str, Any]:
    """Create an order paid by account, and a cart with one unit of another SKU. Return their ids."""
    sold, sku = await stock_up(gateway, "sold", price=100), await stock_up(gateway, "held", price=100)
    account = await open_account(gateway.db, 500)
    bought = await new_cart(gateway, **{sold: 2})
    given = paid_by(bought, account)
    assert (await gateway.result("checkout", given))["__typename"] == "CheckoutPayload"
    order = await gateway.stored("orders")
    return {
        "account": key_in("Account", account),
        "bought": key_in("Cart", bought),
        "cart": key_in("Cart", await new_cart(gateway, **{sku: 1})),
        "order": order["_id"],
        "transfer": ObjectId(order["payment_reference"].removeprefix("transfer-")),
    }


COLLECTIONS = {"account": "accounts", "transfer": "transfers", "order": "orders", "bought": "carts", "cart": "carts"}
_GONE = "order {order}: the transfer that paid it is missing or not settled"
_PAYING = {"status": "PENDING", "checkout": {"reference": "r", "payment": {"method": "token"}}}
# The damage: a document, and an update, or None to delete it. Then the expected problems.
DAMAGE: dict[str, tuple[str, Document | None, str]] = {
    "an account with money was deleted": (
        "account",
        None,
        "transfer {transfer}: its source, account {account}, does not exist",
    ),
    "an order has another total": (
        "order",
        {"$set": {"total": 1}},
        "order {order}: its total is 1, but its lines add up to 200",
    ),
    "an order was paid by nothing": ("order", {"$set": {"payment_reference": f"transfer-{ObjectId()}"}}, _GONE),
    "a payment is gone": ("transfer", None, _GONE),
    "a payment was of another sum": (
        "transfer",
        {"$set": {"amount": 7}},
        "order {order}: its total is 200, but 7 were paid",
    ),
    "an order is gone": (
        "order",
        None,
        """cart {bought}: it is paid for, but has no order
transfer {transfer}: it has paid for a checkout, but there is no order""",
    ),
    "no job finds a pending cart": (
        "cart",
        {"$set": _PAYING, "$unset": {"due": ""}},
        "cart {cart}: it is PENDING, but no job finds it",
    ),
    "a pending cart has no payment": (
        "cart",
        {"$set": {"status": "PENDING"}},
        "cart {cart}: it is locked for a payment, but does not identify the payment",
    ),
    "an expired cart holds units": (
        "cart",
        {"$set": {"status": "EXPIRED"}},
        "cart {cart}: it is EXPIRED, but still holds its units",
    ),
    "a complete cart holds units": (
        "bought",
        {"$set": {"holding": True}},
        "cart {bought}: it is COMPLETE, but still holds its units",
    ),
    "a cart holds nothing": (
        "cart",
        {"$unset": {"holding": ""}},
        "cart {cart}: it is ACTIVE, but does not hold its units",
    ),
    "a cart never lapses": (
        "cart",
        {"$set": {"expires_at": "soon"}},
        "cart {cart}: it never expires, because it has no `expires_at`",
    ),
    "a status is unknown": ("cart", {"$set": {"status": "GONE"}}, "cart {cart}: its status is GONE"),
}
MENDED = {"no job finds a pending cart", "an expired cart holds units"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", DAMAGE)
async def test_inconsistencies_are_reported_and_repaired_if_that_is_safe(
    gateway: GatewayClient, ids: dict[str, Any], name: str
) -> None:
    await assert_invariants(gateway)
    which, update, problems = DAMAGE[name]
    damaged, key = gateway.db[COLLECTIONS[which]], {"_id": ids[which]}
    await (damaged.delete_one(key) if update is None else damaged.update_one(key, update))

    found, left = await examined(gateway)
    again, _ = await examined(gateway, repair=True)
    after, _ = await examined(gateway)

    expected = problems.format(**ids).splitlines()
    assert left >= len(expected)
    for line in expected:
        assert line in found
        assert line in again
        assert (line in after) is (name not in MENDED)


async def test_a_missing_stock_is_reported_for_its_orders_and_carts(
    gateway: GatewayClient, ids: dict[str, Any]
) -> None:
    await gateway.db["stock"].delete_many({})

    found, left = await examined(gateway)

    assert found == [
        f"cart {ids['cart']}: it holds units of held, which has no stock",
        f"order {ids['order']}: its SKU sold has no stock",
    ]
    assert left == 2


async def test_the_jobs_finish_repaired_carts(gateway: GatewayClient, provider: Provider) -> None:
    sku = await stock_up(gateway)
    paying, lapsed = [await new_cart(gateway, **{sku: units}) for units in (2, 1)]
    await gateway.db["carts"].update_one({"_id": key_in("Cart", lapsed)}, {"$set": {"status": "EXPIRED"}})
    await gateway.result("checkout", checkout_input(paying, "hang"))
    await gateway.db["carts"].update_many({"status": "PENDING"}, {"$unset": {"due": ""}})
    provider.is_back = True

    await examined(gateway, repair=True)
    await gateway.run_jobs()

    assert await stock_of(gateway, sku) == (8, 0, 2)
    await assert_invariants(gateway)


async def _crash() -> None:
    raise Crash


@pytest.mark.parametrize("skip", range(3))
async def test_a_checkout_that_ends_while_its_payment_is_checked_is_not_reported(
    gateway: GatewayClient, skip: int
) -> None:
    sku, account = await stock_up(gateway, price=100), await open_account(gateway.db, 500)
    given = paid_by(await new_cart(gateway, **{sku: 2}), account)
    with database_of(gateway, interrupted(gateway.db, "orders", "insert_one", _crash)):
        await gateway.ask(MUTATIONS["checkout"], {"input": given})
    assert await gateway.db["transfers"].count_documents({"state": "SETTLED", "reference": {"$ne": None}}) == 1
    gateway.clock.advance(seconds=31)

    watched = interrupted(gateway.db, None, None, gateway.run_jobs, skip=skip)

    assert [problem async for problem in find_payments_without_order(watched)] == []
    assert await gateway.db["orders"].count_documents({}) == 1


async def test_a_damaged_document_neither_ends_a_run_nor_hides_others(
    gateway: GatewayClient, ids: dict[str, Any]
) -> None:
    await add_categories(gateway.db, [{"slug": "jazz", "name": "Jazz"}])
    await add_products(gateway.db, [product(sku="odd")])
    for name in ("stock", "carts", "orders", "accounts", "transfers", "discussions", "categories", "cms.nodes"):
        await gateway.db[name].insert_one({"_id": "000" if name != "accounts" else ObjectId(b"\0" * 12)})
    await gateway.db["products"].update_one({"sku": "odd"}, {"$set": {"pricing": 7}})
    await gateway.db["stock"].update_one({"_id": "held"}, {"$set": {"available": "9"}})
    await gateway.db["stock"].update_one({"_id": "sold"}, {"$inc": {"available": 1}})
    await gateway.db["orders"].update_one({"_id": ids["order"]}, {"$set": {"items": None}})
    await gateway.db["accounts"].update_one({"_id": ids["account"]}, {"$set": {"pending": "none"}})

    found, left = await examined(gateway, repair=True)

    damaged = {line.partition(":")[0] for line in found if "a field is missing or invalid" in line}
    assert await gateway.db["products"].find_one({"sku": "odd"}) is not None
    assert damaged == {
        "stock of 000",
        "stock of held",
        "cart 000",
        "order 000",
        f"order {ids['order']}",
        f"account {'0' * 24} (None)",
        f"account {ids['account']} (Savings)",
        "transfer 000",
        "discussion 000",
        "category 000",
        "content 000",
        "product odd",
    }
    assert "stock of sold: its counters do not add up to the 10 that were restocked" in found
    assert left >= len(damaged)


async def test_an_unexpected_error_in_a_check_is_reported_as_a_problem(gateway: GatewayClient) -> None:
    async def check(_: Any) -> Any:
        yield Problem("one", "it cannot be mended", _fail)
        raise KeyError("other")

    printed = io.StringIO()
    left = await check_invariant(gateway.db, Invariant("All is well.", check), Console(file=printed), repair=True)

    assert left == 2
    assert printed.getvalue().splitlines() == [
        "  one: it cannot be mended",
        "  the check: it stopped: a field is missing or invalid (KeyError: 'other')",
        "FAIL All is well. 2 wrong, 0 repaired.",
    ]


async def _fail() -> None:
    raise TypeError


async def test_a_name_cannot_forge_a_line(gateway: GatewayClient) -> None:
    forged = "\x1b[2Kx)\nok   Every balance is fine.\u2028\u202e"
    opened = await gateway.result("openAccount", {"name": "Savings"})
    # The gateway refuses such names. They exist only in old documents, or if they were written directly to the
    # database.
    await gateway.db["accounts"].update_one({"name": opened["account"]["name"]}, {"$set": {"name": forged}})
    await gateway.db["accounts"].update_one({"name": forged}, {"$inc": {"balance": 1}})

    (line,), _ = await examined(gateway)

    assert line.endswith(
        r"(\x1b[2Kx)\nok   Every balance is fine.\u2028\u202e): its balance is 1, but its transfers add up to 0"
    )


async def test_an_imported_record_cannot_forge_a_line(settings: Settings, tmp_path: Path) -> None:
    file, printed = tmp_path / "categories.jsonl", io.StringIO()
    file.write_bytes(b'{"slug": "x", "name": "X", "parent": "y\\u001b[2K\\nok"}\n')

    await import_files(settings, "categories", [file], Console(file=io.StringIO()), Console(file=printed))

    assert r"y\x1b[2K\nok" in printed.getvalue()
    assert len(printed.getvalue().splitlines()) == 1
