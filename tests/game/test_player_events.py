"""`characterChanged` and `tradeChanged` deliver to a player what happens to them."""

from __future__ import annotations

from portico.resolvers.documents import Database
from tests.game.support.doing import do
from tests.game.support.stacks import call, give, goods, keyed, offer
from tests.game.support.world import add_character, add_room, character_id, item, item_ids, keeper, keeper_id
from tests.support.harness import GatewayClient
from tests.support.sockets import streamed

CHARACTER = """subscription ($id: ID!) { characterChanged(id: $id) {
  inventory { name } location { characters { name } inventory { name } } } }"""
TRADE = "subscription { tradeChanged { id state from to } }"


async def test_a_player_gets_the_trades_of_both_directions_when_they_change(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "sword", 5)
    async with (
        gateway.as_caller("mara").subscription(TRADE) as maras,
        gateway.as_caller("jonas").subscription(TRADE) as jonas,
    ):
        accepted = await offer(gateway, "mara", "jonas", [goods("sword", 2)])
        for events in (maras, jonas):
            shown = (await anext(events))["tradeChanged"]
            assert (shown["id"], shown["from"], shown["to"]) == (accepted, "mara", "jonas")
        await offer(gateway, "mara", "robin", [goods("sword", 1)])
        assert (await anext(maras))["tradeChanged"]["to"] == "robin"

        await call(gateway, "acceptTrade", "jonas", keyed(id=accepted))
        for events in (maras, jonas):
            shown = (await anext(events))["tradeChanged"]
            assert (shown["id"], shown["state"]) == (accepted, "SETTLED")

        cancelled = await offer(gateway, "mara", "jonas", [goods("sword", 1)])
        await call(gateway, "cancelTrade", "jonas", keyed(id=cancelled))
        for events in (maras, jonas):
            states = [(await anext(events))["tradeChanged"] for _ in range(2)]
            assert [one["id"] for one in states] == [cancelled, cancelled]
            assert states[-1]["state"] == "CANCELLED"


async def test_a_player_sees_actions_gifts_and_who_comes(gateway: GatewayClient, db: Database) -> None:
    room = await add_room(db, "Temple", items=[item("Lamp"), item("Rope")])
    ann, bob = await add_character(db, "ann", room), await add_character(db, "bob", room)
    lamp, rope = item_ids(room["items"])
    async with gateway.as_caller("ann").subscription(CHARACTER, {"id": character_id(ann)}) as changed:

        async def until(inventory: set[str], floor: set[str], others: set[str]) -> None:
            wanted, found = [inventory, floor, others], list[set[str]]()
            # States in between can come, too.
            for _ in range(10):
                shown = (await anext(changed))["characterChanged"]
                location = shown["location"]
                lists = shown["inventory"], location["inventory"], location["characters"]
                found = [{one["name"] for one in rows} for rows in lists]
                if found == wanted:
                    break
            assert found == wanted

        await do(gateway, "pickUp", "ann", characterId=character_id(ann), itemId=lamp)
        await until({"Lamp"}, {"Rope"}, {"Ann", "Bob"})
        await do(gateway, "pickUp", "bob", characterId=character_id(bob), itemId=rope)
        await until({"Lamp"}, set(), {"Ann", "Bob"})
        given = {"itemId": rope, "toId": character_id(ann)}
        await do(gateway, "give", "bob", characterId=character_id(bob), **given)
        await until({"Lamp", "Rope"}, set(), {"Ann", "Bob"})


async def test_nobody_else_can_watch_a_character(gateway: GatewayClient, db: Database, port: int) -> None:
    room = await add_room(db, "Temple", keepers=[keeper("Smith")])
    ann = await add_character(db, "ann", room)
    for key in (character_id(ann), keeper_id(room)):
        async with streamed(port, CHARACTER, {"id": key}, token=gateway.token("bob", [])) as stream:
            event = await stream.receive()
        assert event is not None
        assert event[1]["errors"][0]["extensions"]["code"] == "NOT_FOUND"
