"""Creates inventories and a trade."""

from __future__ import annotations

from portico.resolvers.game.inventories.stacks import Place, stack_id
from portico.schema.kinds import Kind
from portico.testing.kits import Known
from tests.game.support.stacks import give, goods, offer
from tests.support.harness import GatewayClient


async def seed(gateway: GatewayClient, _known: Known) -> Known:
    """Creates the caller's bag, a shop, and a trade between the caller and another player."""
    me = gateway.subject
    for item in ("sword", "shield", "potion"):
        await give(gateway.db, me, item, 5)
        await give(gateway.db, "smithy", item, 5, name="shop")
    trade = await offer(gateway, me, "ada", [goods("sword", 2)], [goods("coin", 3), goods("gem", 1)])
    stack = stack_id(Place(me, "bag"), "thing", "shield")
    return {
        "id": [trade, Kind.encode_id("Stack", stack)],
        "owner": [me, "smithy"],
        "name": ["bag", "shop"],
        "category": ["thing"],
        "itemId": ["sword", "shield"],
    }
