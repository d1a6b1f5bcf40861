"""The marks that operations leave on documents: few are kept, and none is deleted while a call may need it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from portico.resolvers.comments import embedded_storage, ledger
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from portico.resolvers.writes import marks as operation_marks
from portico.resolvers.writes.operation_records import OPERATIONS
from tests.comments.support.discussions import open_on_product, post
from tests.content.support.site import create_page
from tests.shop.support.shop import add_input, cart_of, new_cart, quantities, stock_of, stock_up
from tests.support.harness import GatewayClient, SettableClock, create_category, new_key, some_stops
from tests.support.interruptions import crashing

KEPT = 4
# Enough writes for two checks of the marks, and a few more.
LATER = 4 * KEPT
Call = tuple[str, dict[str, Any]]


@dataclass
class Case:
    """A call, the calls that follow it, and the expected state if no call has its effect twice."""

    first: Call
    later: Callable[[int], Call]
    at_last: Any
    look: Callable[[], Awaitable[Any]]


async def _restock(gateway: GatewayClient) -> Case:
    sku = await stock_up(gateway, units=1)

    def restock(units: int) -> Call:
        return "restock", {"sku": sku, "quantity": units}

    async def look() -> tuple[int, int, int]:
        return await stock_of(gateway, sku)

    return Case(restock(100), lambda _: restock(1), (101 + LATER, 0, 0), look)


async def _add(gateway: GatewayClient) -> Case:
    one, other = [await stock_up(gateway, units=100) for _ in range(2)]
    cart = await new_cart(gateway)

    async def look() -> dict[str, int]:
        return quantities(await cart_of(gateway, cart))

    first = ("addItemToCart", add_input(cart, one, 3))
    return Case(first, lambda _: ("addItemToCart", add_input(cart, other)), {one: 3, other: LATER}, look)


def _node(gateway: GatewayClient, global_id: str, selection: str) -> Callable[[], Awaitable[Any]]:
    async def look() -> Any:
        text = f"query ($id: ID!) {{ node(id: $id) {{ ... on {selection} }} }}"
        return (await gateway.data(text, {"id": global_id}))["node"]

    return look


def _set(gateway: GatewayClient, mutation: str, global_id: str, kind: str, field: str) -> Case:
    """Calls that set a field of a node. The last one counts."""

    def call(value: object) -> Call:
        return mutation, {"id": global_id, field: f"{value}"}

    return Case(call("First"), call, {field: f"{LATER - 1}"}, _node(gateway, global_id, f"{kind} {{ {field} }}"))


async def _rename(gateway: GatewayClient) -> Case:
    return _set(gateway, "renameCategory", (await create_category(gateway))["id"], "Category", "name")


async def _tag(gateway: GatewayClient) -> Case:
    given: dict[str, Any] = {"id": (await create_page(gateway))["id"], "tags": ["first"]}
    look = _node(gateway, given["id"], "Page { tags }")
    return Case(("addTags", given), lambda _: ("removeTags", given), {"tags": []}, look)


def _edit(storage: str) -> Callable[[GatewayClient], Awaitable[Case]]:
    async def case(gateway: GatewayClient) -> Case:
        comment = await post(gateway, await open_on_product(gateway, storage))
        return _set(gateway, "editComment", comment["id"], "Comment", "text")

    return case


CASES = {
    "a restock": _restock,
    "an item for a cart": _add,
    "a name of a category": _rename,
    "a tag": _tag,
    **{f"a text of {storage}": _edit(storage) for storage in (DOCUMENTS, EMBEDDED, PAGES)},
}
MARKED = ("stock", "carts", "categories", "cms.nodes", "comments", "comment_discussions", "comment_pages")


@pytest.fixture(autouse=True)
def few_marks_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the number of marks that a document keeps, so that a few writes exceed it."""
    monkeypatch.setattr(operation_marks, "_MARKS_KEPT", KEPT)
    for module in (ledger, embedded_storage):
        monkeypatch.setattr(module, "MARKS_KEPT", KEPT)


async def forget_the_answer(gateway: GatewayClient) -> None:
    """Set the operations to their state before a call stores its answer."""
    await gateway.db[OPERATIONS.name].update_many({}, {"$set": {"state": "running"}, "$unset": {"outcome": ""}})


async def marks(gateway: GatewayClient) -> list[str]:
    """The marks of the only document that has any."""
    documents = [document for name in MARKED async for document in gateway.db[name].find({})]
    cells = [cell for document in documents for cell in (document, *document.get("comments", ()))]
    (found,) = [cell["applied"] for cell in cells if cell.get("applied")]
    return list(found)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
async def test_an_interrupted_call_has_one_effect_even_after_many_later_calls(
    gateway: GatewayClient, clock: SettableClock, name: str
) -> None:
    case = await CASES[name](gateway)
    mutation, given = case.first
    given["idempotencyKey"] = "first"
    first = await gateway.result(mutation, given)
    await forget_the_answer(gateway)
    for number in range(LATER):
        other, later = case.later(number)
        await gateway.result(other, {**later, "idempotencyKey": new_key()})
    clock.advance(seconds=31)

    again = await gateway.result(mutation, given)

    assert again["__typename"] == first["__typename"]
    assert await case.look() == case.at_last
    kept = await marks(gateway)
    assert len(kept) < 2 * KEPT + 1
    assert len(set(kept)) == len(kept)


async def test_concurrent_restocks_count_once_while_marks_are_deleted(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=1)
    first = [{"sku": sku, "quantity": 100, "idempotencyKey": new_key()} for _ in range(KEPT)]
    await asyncio.gather(*(gateway.result("restock", given) for given in first))
    await forget_the_answer(gateway)
    others = [{"sku": sku, "quantity": 1, "idempotencyKey": new_key()} for _ in range(8 * KEPT)]

    await asyncio.gather(*(gateway.result("restock", given) for given in others))
    gateway.clock.advance(seconds=31)
    await asyncio.gather(*(gateway.result("restock", given) for given in (*first, *others)))

    assert await stock_of(gateway, sku) == (1 + 100 * len(first) + len(others), 0, 0)
    assert len(await marks(gateway)) < len(first) + len(others)


async def test_a_restock_that_crashes_while_it_deletes_marks_counts_once(gateway: GatewayClient) -> None:
    for stop in some_stops(2):
        for collection in ("stock", "products", "operations"):
            await gateway.db[collection].delete_many({})
        sku = await stock_up(gateway, units=1)
        given = [{"sku": sku, "quantity": 1, "idempotencyKey": new_key()} for _ in range(2 * KEPT)]
        for one in given[:-1]:
            await gateway.result("restock", one)
        with crashing(gateway, stop) as faulty:
            text = "mutation ($input: RestockInput!) { restock(input: $input) { __typename } }"
            await gateway.ask(text, {"input": given[-1]})
        gateway.clock.advance(seconds=31)
        for one in given:
            await gateway.result("restock", one)

        assert await stock_of(gateway, sku) == (1 + len(given), 0, 0), stop
        if not faulty.has_crashed:
            break
    # The marks are read, and then deleted.
    assert [name for name, _ in faulty.commands].count("stock") == 2
    assert len(await marks(gateway)) == KEPT
