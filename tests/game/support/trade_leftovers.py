"""Creates what an old crash of a trade leaves, and old trades. See `leftovers`."""

from __future__ import annotations

from typing import Any

from tests.game.support.stacks import ask, give, goods, keyed, moved, offer
from tests.support.harness import GatewayClient
from tests.support.ids import key_in
from tests.support.interruptions import crashing
from tests.support.leftovers import LONG_AGO, Left, set_values

Given = dict[str, Any]


async def _trade(gateway: GatewayClient) -> Given:
    await give(gateway.db, "mara", "sword")
    await give(gateway.db, "jonas", "coin")
    return keyed(id=await offer(gateway, "mara", "jonas", [goods("sword")], [goods("coin")]))


async def noted_stack(gateway: GatewayClient) -> Left:
    await give(gateway.db, "mara", "sword")
    with crashing(gateway, 2):
        await ask(gateway, "transferStack", "mara", moved("sword"))
    await gateway.db["game.stacks"].update_many({"notes.delta": {"$exists": True}}, {"$set": {"notes.0.at": LONG_AGO}})
    return "game.stacks", {"inventory": "bank", "notes.at": LONG_AGO}


async def accepted_trade(gateway: GatewayClient) -> Left:
    given = await _trade(gateway)
    await ask(gateway, "acceptTrade", "jonas", given)
    await _set(gateway, given, state="ACCEPTED", open_since=LONG_AGO)
    return "game.trades", {"open_since": LONG_AGO}


async def old_offer(gateway: GatewayClient) -> Left:
    given = await _trade(gateway)
    await _set(gateway, given, created_at=LONG_AGO)
    return "game.trades", {"state": "OFFERED"}


async def old_trade(gateway: GatewayClient) -> Left:
    given = await _trade(gateway)
    await ask(gateway, "cancelTrade", "jonas", given)
    await _set(gateway, given, created_at=LONG_AGO, concluded_at=LONG_AGO)
    return "game.trades", {"state": "CANCELLED"}


async def _set(gateway: GatewayClient, given: Given, **values: Any) -> None:
    await set_values(gateway, "game.trades", key_in("Trade", given["id"]), **values)
