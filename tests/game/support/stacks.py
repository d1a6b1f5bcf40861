"""Inventories and trades for tests, through the public schema, and assertions about their items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portico.gateway.clock import SystemClock
from portico.resolvers.documents import Database
from portico.resolvers.game.inventories import stack_edits, stacks, trade_edits
from portico.resolvers.game.inventories.stacks import Place, Viewer, Wanted
from portico.resolvers.writes.marks import random_operation_id
from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.support.harness import MUTATIONS, Answer, GatewayClient, assert_invariants, new_key

Given = dict[str, Any]


def bag(owner: str, name: str = "bag") -> Given:
    """An `InventoryRef`."""
    return {"owner": owner, "name": name}


def goods(item: str, quantity: int = 1, category: str = "thing") -> Given:
    """A `StackInput`."""
    return {"category": category, "itemId": item, "quantity": quantity}


def keyed(**given: Any) -> Given:
    """The input with an idempotency key of its own."""
    return {**given, "idempotencyKey": new_key()}


def used(item: str, quantity: int = 1, *, of: Given | None = None) -> Given:
    """A valid `ConsumeInput`, by default of Mara's bag."""
    return keyed(**{"from": of or bag("mara"), "stack": goods(item, quantity)})


def moved(item: str, quantity: int = 1, *, of: Given | None = None, to: Given | None = None) -> Given:
    """A valid `TransferStackInput`, by default from Mara's bag to her bank."""
    return {**used(item, quantity, of=of), "to": to or bag("mara", "bank")}


def offered(
    offers: Sequence[Given], wants: Sequence[Given] = (), *, of: Given | None = None, to: Given | None = None
) -> Given:
    """A valid `OfferTradeInput`, by default from Mara's bag to Jonas'."""
    sides = {"from": of or bag("mara"), "to": to or bag("jonas")}
    return keyed(**sides, offers=list(offers), wants=list(wants))


async def give(
    db: Database, owner: str, item: str, quantity: int = 1, *, name: str = "bag", category: str = "thing", **shown: Any
) -> None:
    """Grants items, as a GAME_MASTER does."""
    display = {"name": item.title(), "description": None, "image": None, **shown}
    await stack_edits.grant(
        db,
        to=Place(owner, name),
        wanted=Wanted(category, item, quantity),
        **display,
        operation_id=random_operation_id(),
    )


async def call(gateway: GatewayClient, mutation: str, subject: str, given: Given, *roles: Role) -> Any:
    """Calls a mutation as this subject. Returns its union member."""
    token = gateway.token(subject, list(roles))
    return (await gateway.data(MUTATIONS[mutation], {"input": given}, token=token))[mutation]


async def do(gateway: GatewayClient, mutation: str, subject: str = "ann", **given: Any) -> Any:
    """Carries out a mutation, and returns its payload or error."""
    return await call(gateway, mutation, subject, given)


async def ask(gateway: GatewayClient, mutation: str, subject: str, given: Given, *roles: Role) -> Answer:
    """Calls a mutation as this subject. Returns the whole answer, with its errors."""
    token = gateway.token(subject, list(roles))
    return await gateway.ask(MUTATIONS[mutation], {"input": given}, token=token)


async def offer(
    gateway: GatewayClient, owner: str, to: str, offers: list[Given] | None = None, wants: list[Given] | None = None
) -> str:
    """Offers a trade between two bags. Returns its id."""
    made = await trade_edits.offer_trade(
        gateway.db,
        viewer=Viewer(owner, is_game_master=False),
        source=Place(owner, "bag"),
        to=Place(to, "bag"),
        offers=_lines(offers),
        wants=_lines(wants),
        now=SystemClock().now(),
        operation_id=random_operation_id(),
    )
    return Kind.encode_id("Trade", made["_id"])


def _lines(given: list[Given] | None) -> list[Wanted]:
    return [Wanted(one["category"], one["itemId"], one["quantity"]) for one in given or ()]


async def held(db: Database, owner: str, name: str = "bag") -> dict[str, int]:
    """Returns the quantities in an inventory by item, without empty stacks."""
    query = {"owner": owner, "inventory": name, "quantity": {"$gt": 0}}
    return {stack["item_id"]: stack["quantity"] async for stack in db[stacks.STACKS.name].find(query)}


async def assert_nothing_in_flight(db: Database) -> None:
    """Asserts that no stack has a note, and every accepted trade is settled."""
    assert await db["game.stacks"].find_one({"notes": {"$ne": []}}) is None
    assert await db["game.trades"].find_one({"open_since": {"$exists": True}}) is None
    assert await db["game.trades"].find_one({"state": "ACCEPTED"}) is None


async def assert_items(gateway: GatewayClient) -> None:
    """Asserts that nothing is in flight, and that all invariants hold."""
    await assert_nothing_in_flight(gateway.db)
    await assert_invariants(gateway)
