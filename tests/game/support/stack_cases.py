"""Inputs and failures of the mutations of stacks and trades, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from bson import ObjectId

from portico.resolvers.game.inventories.trade_bounds import MAX_OPEN
from portico.schema.kinds import Kind
from portico.testing.kits import Failing, Failure, fails_with
from tests.game.support.stacks import bag, give, goods, offer
from tests.support.harness import GatewayClient

Given = dict[str, Any]
Case = Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]
# Everybody who calls a mutation in these tests.
_CALLERS = ("tester", "one", "another")
NO_TRADE = Kind.encode_id("Trade", ObjectId())


def _granted(quantity: int) -> Given:
    return {"to": bag("tester"), "name": "Sword", **goods("sword", quantity)}


def _consumed(quantity: int) -> Given:
    return {"from": bag("tester"), "stack": goods("sword", quantity)}


def _moved(quantity: int) -> Given:
    return {"from": bag("tester"), "to": bag("tester", "bank"), "stack": goods("sword", quantity)}


def _offered(quantity: int) -> Given:
    return {"from": bag("tester"), "to": bag("jonas"), "offers": [goods("sword", quantity)], "wants": [goods("coin")]}


def _with_swords(given: Callable[[int], Given]) -> Case:
    async def case(gateway: GatewayClient) -> tuple[Given, Given]:
        await give(gateway.db, "tester", "sword", 9)
        return given(1), given(2)

    return case


async def _grant(_gateway: GatewayClient) -> tuple[Given, Given]:
    return _granted(1), _granted(2)


async def _open_trades(gateway: GatewayClient) -> tuple[Given, Given]:
    await give(gateway.db, "jonas", "coin", 2)
    for caller in _CALLERS:
        await give(gateway.db, caller, "sword", 2)
    one, other = [await offer(gateway, "jonas", "tester", [goods("coin")], [goods("sword")]) for _ in range(2)]
    return {"id": one}, {"id": other}


CASES: dict[str, Case] = {
    "grant": _grant,
    "consume": _with_swords(_consumed),
    "transferStack": _with_swords(_moved),
    "offerTrade": _with_swords(_offered),
    "acceptTrade": _open_trades,
    "cancelTrade": _open_trades,
}


def _without_swords(given: Given) -> Failing:
    """A failure until the caller has swords."""

    async def fail(gateway: GatewayClient) -> Failure:
        return Failure(given, partial(give, gateway.db, "tester", "sword", 9))

    return fail


async def _too_many_offers(gateway: GatewayClient) -> Failure:
    await give(gateway.db, "tester", "sword", 9)
    for _ in range(MAX_OPEN):
        await offer(gateway, "tester", "jonas", [], [goods("coin")])
    return Failure(_offered(1))


async def _accepted_without_swords(gateway: GatewayClient) -> Failure:
    await give(gateway.db, "jonas", "coin")
    trade = await offer(gateway, "jonas", "tester", [goods("coin")], [goods("sword")])
    return Failure({"id": trade}, partial(give, gateway.db, "tester", "sword"))


FAILURES: dict[tuple[str, str], Failing] = {
    ("grant", "InvalidInput"): fails_with(lambda: _granted(0)),
    ("consume", "NotEnough"): _without_swords(_consumed(1)),
    ("consume", "InvalidInput"): fails_with(lambda: _consumed(0)),
    ("transferStack", "NotEnough"): _without_swords(_moved(1)),
    ("transferStack", "InvalidInput"): fails_with(lambda: _moved(0)),
    ("offerTrade", "NotEnough"): _without_swords(_offered(1)),
    ("offerTrade", "InvalidInput"): fails_with(lambda: _offered(0)),
    ("offerTrade", "LimitReached"): _too_many_offers,
    ("acceptTrade", "NotEnough"): _accepted_without_swords,
    ("acceptTrade", "NotFound"): fails_with(lambda: {"id": NO_TRADE}),
    ("cancelTrade", "NotFound"): fails_with(lambda: {"id": NO_TRADE}),
}
# The caller of these tests is a GAME_MASTER, who may use every inventory and accept every trade. A conflict is
# temporary. A cancellation takes nothing, so nothing can lack, and its input cannot be invalid.
ELSEWHERE = {
    *((name, "NotFound") for name in ("consume", "transferStack", "offerTrade")),
    *((name, "Conflict") for name in ("offerTrade", "acceptTrade", "cancelTrade")),
    *((name, "InvalidInput") for name in ("acceptTrade", "cancelTrade")),
    ("cancelTrade", "NotEnough"),
    *((name, "LimitReached") for name in ("acceptTrade", "cancelTrade")),
}
