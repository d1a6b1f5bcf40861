"""Creates what old crashes of actions and trades leave, and old trades. See `leftovers`."""

from __future__ import annotations

from typing import Any

from portico.resolvers.game.world.rooms import Rooms
from tests.game.support.scene import action, add_temple
from tests.game.support.stacks import ask, give, goods, keyed, moved, offer
from tests.support.harness import MUTATIONS, GatewayClient
from tests.support.ids import key_in
from tests.support.interruptions import crashing
from tests.support.leftovers import LONG_AGO, Left, set_values


async def unfinished_turn(gateway: GatewayClient) -> Left:
    temple = await add_temple(gateway.db)
    with crashing(gateway, 1):
        await gateway.ask(MUTATIONS["drop"], {"input": temple.on("bag")})
    await gateway.db["game.characters"].update_one({"_id": temple.me["_id"]}, {"$set": {"action.since": LONG_AGO}})
    return "game.characters", {"action.since": LONG_AGO}


async def _room(gateway: GatewayClient, mutation: str, changes: int, mark: str) -> Left:
    """Crashes an action after this number of changes, and makes the mark that it leaves in its room old."""
    temple = await add_temple(gateway.db)
    with crashing(gateway, changes):
        await gateway.ask(MUTATIONS[mutation], {"input": action(temple, mutation)})
    entries = {f"characters.{number}.since": LONG_AGO for number in range(2)}
    await gateway.db["game.locations"].update_one({"_id": temple.room["_id"]}, {"$set": {mark: LONG_AGO, **entries}})
    gateway.state.resources[Rooms] = Rooms()
    return "game.locations", {mark: LONG_AGO}


async def room_with_outcome(gateway: GatewayClient) -> Left:
    """Leaves what a turn has given, although the character has it: the process stopped right after the turn."""
    temple = await add_temple(gateway.db)
    await gateway.result("pickUp", action(temple, "pickUp"))
    entries = {"took_since": LONG_AGO, "characters.0.since": LONG_AGO}
    await gateway.db["game.locations"].update_one({"_id": temple.room["_id"]}, {"$set": entries})
    gateway.state.resources[Rooms] = Rooms()
    return "game.locations", {"took_since": LONG_AGO}


async def stale_room(gateway: GatewayClient) -> Left:
    return await _room(gateway, "pickUp", 3, "stale_since")


async def room_with_gift(gateway: GatewayClient) -> Left:
    return await _room(gateway, "give", 3, "gifts_since")


async def room_with_entry(gateway: GatewayClient) -> Left:
    return await _room(gateway, "move", 6, "leaving_since")


async def idle_character(gateway: GatewayClient) -> Left:
    temple = await add_temple(gateway.db)
    entry = {"characters.0.since": LONG_AGO}
    await gateway.db["game.locations"].update_one({"_id": temple.room["_id"]}, {"$set": entry})
    return "game.locations", entry


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
