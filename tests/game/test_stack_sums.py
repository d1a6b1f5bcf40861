"""The sums of all grants and of all that was consumed stay within what the database can count."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from portico.resolvers.errors import InvalidInput
from portico.resolvers.game.inventories.stack_checks import find_unbalanced_items
from portico.resolvers.game.inventories.stack_imports import StackRecord, import_stack
from portico.resolvers.game.inventories.stacks import MAX_COUNTED, MAX_QUANTITY, Place, identity, stack_id
from portico.schema.game.game_masters import GAME_MASTER
from tests.game.support.reading import granted
from tests.game.support.stacks import assert_items, call, give, held, used
from tests.support.harness import GatewayClient


async def test_grants_and_consumption_end_before_their_sums_overflow(gateway: GatewayClient) -> None:
    """Someone grants and consumes the largest quantity again and again: 128 times fit into 2^60."""
    await call(gateway, "grant", "master", granted("coin", 5), GAME_MASTER)
    sums = {"granted": MAX_COUNTED - 5, "consumed": MAX_COUNTED - 10}
    await gateway.db["game.stacks"].update_one({"item_id": "coin"}, {"$set": sums})

    refused = await call(gateway, "grant", "master", granted("coin", 6), GAME_MASTER)
    filled = await call(gateway, "grant", "master", granted("coin", 5), GAME_MASTER)
    consumed = await call(gateway, "consume", "mara", used("coin", 6))
    stuck = await call(gateway, "consume", "mara", used("coin", 4 + 1))

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["quantity"])
    assert refused["message"].startswith("At most 2^60 items can be granted to a stack in all; 'coin' has got 1,152,9")
    assert filled["stack"]["quantity"] == 10
    assert consumed["stack"]["quantity"] == 4
    assert (stuck["__typename"], stuck["path"]) == ("InvalidInput", ["stack", "quantity"])
    assert await held(gateway.db, "mara") == {"coin": 4}


async def test_an_import_refuses_what_the_sum_of_grants_cannot_hold(gateway: GatewayClient) -> None:
    await give(gateway.db, "outfitter", "rope", 1, name="shop", category="tool")
    await gateway.db["game.stacks"].update_one({}, {"$set": {"granted": MAX_COUNTED}})

    with pytest.raises(InvalidInput, match="At most 2\\^60"):
        await import_stack(
            gateway.db, StackRecord(Place("outfitter", "shop"), "tool", "rope", "Rope", 1), now=datetime.now(UTC)
        )


async def test_the_doctor_adds_up_more_items_than_64_bits_can_count(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "coin", 5)
    await give(gateway.db, "bo", "coin", 5)
    for number in range(12):
        place = Place(f"owner {number}", "bag")
        stack = {
            "_id": stack_id(place, "thing", "coin"),
            **identity(place, "thing", "coin"),
            "name": "Coin",
            "quantity": MAX_QUANTITY,
            "granted": MAX_COUNTED,
            "consumed": MAX_COUNTED - MAX_QUANTITY,
            "notes": [],
        }
        await gateway.db["game.stacks"].insert_one(stack)
    await assert_items(gateway)

    await gateway.db["game.stacks"].update_one({"owner": "mara"}, {"$inc": {"quantity": 1}})

    problems = [one.text async for one in find_unbalanced_items(gateway.db)]
    assert problems == [
        f"there are {12 * MAX_QUANTITY + 11:,}, but {12 * MAX_QUANTITY + 10:,} were granted and not consumed"
    ]
