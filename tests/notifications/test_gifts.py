"""The notifications of gifts between characters: one for each, and only for other players."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from portico.resolvers.attachments import Hosts
from portico.resolvers.game.world.gift_records import GIFTS
from portico.resolvers.notifications import backlogs
from portico.resolvers.notifications.notifications import NOTIFICATIONS
from portico.resolvers.notifications.storing import Storing
from portico.resolvers.notifying import Notifications
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.kinds import Kind
from tests.game.support.scene import action, add_temple
from tests.game.support.stages import Turns
from tests.game.support.world import add_character, character_id
from tests.notifications.support.news import begin, deliver, listed, reasons_of, unread
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, some_stops

GIFT = """
query ($id: ID!) {
  node(id: $id) {
    ... on Gift { givenItemId description givenAt giver { characterId name kind } receiver { characterId name } }
  }
}
"""


async def give(gateway: GatewayClient, given: dict[str, Any]) -> str:
    typename: str = (await gateway.result("give", given))["__typename"]
    return typename


async def test_the_player_of_a_character_is_notified_of_a_gift(gateway: GatewayClient, clock: SettableClock) -> None:
    temple = await add_temple(gateway.db, owner=gateway.subject)
    await begin(gateway)

    assert await give(gateway, action(temple, "give")) == "CharacterPayload"

    assert await deliver(gateway) == 1
    (row,) = await listed(gateway, "bo")
    assert (row["reason"], row["actor"], row["node"]["__typename"]) == ("GIFT_RECEIVED", None, "Gift")
    assert await reasons_of(gateway, gateway.subject) == []
    gift = (await gateway.as_caller("bo").data(GIFT, {"id": row["nodeId"]}))["node"]
    assert gift.pop("givenAt").startswith(clock.now().strftime("%Y-%m-%dT"))
    assert gift == {
        "givenItemId": temple.items["bag"],
        "description": "bag",
        "giver": {"characterId": character_id(temple.me), "name": "Tester", "kind": "PLAYER"},
        "receiver": {"characterId": character_id(temple.friend), "name": "Bo"},
    }
    await assert_invariants(gateway)


async def test_only_the_receiver_and_a_game_master_see_a_gift(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, owner=gateway.subject)
    await give(gateway, action(temple, "give"))
    (gift,) = await gateway.db[GIFTS.name].find({}).to_list()
    asked = {"id": Kind.encode_id("Gift", gift["_id"])}

    async def seen(client: GatewayClient) -> bool:
        return (await client.data(GIFT, asked))["node"] is not None

    assert await seen(gateway.as_caller("bo"))
    assert await seen(gateway.as_caller("master", GAME_MASTER))
    assert not await seen(gateway.as_caller(gateway.subject))
    assert not await seen(gateway.as_caller("cem"))


async def test_gifts_to_ones_own_characters_and_refused_gifts_are_no_news(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, owner=gateway.subject)
    mine = await add_character(gateway.db, gateway.subject, temple.room)
    gone = await add_character(gateway.db, "cem", temple.market)
    await begin(gateway)

    assert await give(gateway, temple.on("pear", toId=character_id(mine))) == "CharacterPayload"
    assert await give(gateway, temple.on("bag", toId=character_id(gone))) == "NotFound"

    assert await deliver(gateway) == 0
    assert await gateway.db[GIFTS.name].find({}).to_list() == []


async def test_the_same_thing_given_twice_is_two_gifts(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, owner=gateway.subject)
    await begin(gateway)
    await give(gateway, action(temple, "give"))
    back = {"characterId": character_id(temple.friend), "itemId": temple.items["bag"], "toId": character_id(temple.me)}

    assert await give(gateway.as_caller("bo"), back) == "CharacterPayload"
    assert await give(gateway, action(temple, "give")) == "CharacterPayload"

    assert await deliver(gateway) == 3
    assert (await unread(gateway, "bo"), await unread(gateway, gateway.subject)) == (2, 1)


async def test_a_gift_whose_call_crashes_anywhere_is_told_once(gateway: GatewayClient, clock: SettableClock) -> None:
    scene = Turns(gateway, clock)
    await begin(gateway)
    for stop in some_stops(2):
        # The same gift of the same turn as before.
        await scene.restore()
        await gateway.db[NOTIFICATIONS.name].delete_many({})
        given = {**action(scene.temple, "give"), "idempotencyKey": f"the key {stop}"}
        crashed = await scene.crash("give", given, stop)
        await scene.run_jobs()
        has_it = (await scene.state())["bag"] == "Bo"

        assert await deliver(gateway) == has_it

        clock.advance(seconds=31)
        assert await scene.typename_of("give", given) == "CharacterPayload"
        assert await deliver(gateway) == (not has_it)
        assert await reasons_of(gateway, "bo") == [("GIFT_RECEIVED", None)]
        if not crashed:
            break
    assert stop >= 4


async def test_gifts_that_a_lost_stream_has_not_delivered_are_found(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db, owner=gateway.subject)
    await give(gateway, action(temple, "give"))
    resources, now = gateway.state.resources, gateway.clock.now()

    async def missed_since(since: datetime) -> int:
        storing = Storing(gateway.db, resources.of(Hosts), now, timedelta(days=90))
        return await backlogs.read_all(storing, resources.of(Notifications).sources, since)

    assert await missed_since(now + timedelta(seconds=1)) == 0
    assert await missed_since(now - timedelta(days=1)) == 1
    assert await missed_since(now - timedelta(days=1)) == 0
    assert await reasons_of(gateway, "bo") == [("GIFT_RECEIVED", None)]
