"""The owners of inventories: players, and shops and NPCs, which are in a namespace of their own."""

from __future__ import annotations

import pytest

from portico.schema.game.game_masters import GAME_MASTER
from tests.game.support.reading import LIST, items
from tests.game.support.stacks import assert_items, bag, call, give, goods, held, moved, offered, used
from tests.support.harness import GatewayClient


@pytest.mark.parametrize("subject", ["outfitter", "npc:outfitter"])
async def test_no_player_owns_the_inventories_of_a_shop_or_an_npc_whatever_the_subject(
    gateway: GatewayClient, subject: str
) -> None:
    for name in ("shop", "vault"):
        await give(gateway.db, "npc:outfitter", "rope", 5, name=name)
    shop = bag("npc:outfitter", "shop")

    answers = [
        await call(gateway, "consume", subject, used("rope", of=shop)),
        await call(gateway, "transferStack", subject, moved("rope", of=shop, to=bag("npc:outfitter", "bank"))),
        await call(gateway, "offerTrade", subject, offered([goods("rope")], of=shop, to=bag("bo"))),
    ]
    shelf = await items(gateway, subject, "npc:outfitter", name="shop")
    vault = await gateway.data(LIST, {"owner": "npc:outfitter", "name": "vault"}, token=gateway.token(subject, []))

    assert [one["__typename"] for one in answers] == ["NotFound"] * 3
    assert shelf == ["rope"]
    assert vault == {"inventory": None}
    assert await held(gateway.db, "npc:outfitter", "shop") == {"rope": 5}


async def test_a_game_master_moves_the_goods_of_a_shop_from_its_name_to_the_npc(gateway: GatewayClient) -> None:
    """Shops of an earlier version have names like those of players."""
    await give(gateway.db, "outfitter", "rope", 5, name="shop")
    shop, new = bag("outfitter", "shop"), bag("npc:outfitter", "shop")

    refused = await call(gateway, "transferStack", "outfitter", moved("rope", 5, of=shop, to=new))
    made = await call(gateway, "transferStack", "master", moved("rope", 5, of=shop, to=new), GAME_MASTER)
    other = await call(gateway, "transferStack", "master", moved("rope", of=new, to=bag("bo")), GAME_MASTER)

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["to", "owner"])
    assert made["stack"]["quantity"] == 5
    assert (other["__typename"], other["path"]) == ("InvalidInput", ["to", "owner"])
    assert await held(gateway.db, "npc:outfitter", "shop") == {"rope": 5}
    await assert_items(gateway)
