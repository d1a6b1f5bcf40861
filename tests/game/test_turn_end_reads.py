"""Reads of characters whose last step is still to come, while something happens between two of their commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.game.world import character_edits, character_reads, locations
from portico.resolvers.game.world.characters import CHARACTERS, listing
from portico.resolvers.game.world.rooms import Rooms
from portico.schema.game.game_masters import GAME_MASTER
from tests.game.support.smithy import Smithy, names
from tests.game.support.world import add_character, character_id
from tests.support.harness import Commands, GatewayClient

PAGE = """query ($after: String) { characters(first: 1, after: $after) {
    nodes { name inventory { name } } pageInfo { endCursor hasNextPage } } }"""


@pytest.fixture
def before_rooms(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Awaitable[object]]], list[bool]]:
    """Returns a function that lets something happen after a read of characters and before that of their rooms, once.

    It returns a list that is not empty when it has happened.
    """
    real = locations.find_by_ids

    def happens(action: Callable[[], Awaitable[object]]) -> list[bool]:
        happened: list[bool] = []

        async def find_by_ids(
            db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
        ) -> Mapping[ObjectId, Document]:
            if not happened:
                happened.append(True)
                await action()
            return await real(db, ids, projection)

        monkeypatch.setattr(locations, "find_by_ids", find_by_ids)
        return happened

    return happens


async def older_character(smithy: Smithy) -> Document:
    """Adds Bob, who comes after Ann in the list of all characters."""
    bob = await add_character(smithy.db, "bob", smithy.room)
    older = (await smithy.stored())["created_at"] - timedelta(days=1)
    await smithy.db[CHARACTERS.name].update_one({"_id": bob["_id"]}, {"$set": {"created_at": older}})
    return bob


async def test_a_page_with_a_row_that_is_read_again_leads_to_the_next_page(
    gateway: GatewayClient, smithy: Smithy, before_rooms: Any
) -> None:
    bob = await older_character(smithy)
    await smithy.pick_up("sword")

    async def end_and_forget() -> None:
        await smithy.settler.settled(smithy.db)
        smithy.clock.advance(seconds=6)
        await smithy.forgotten()

    ended = before_rooms(end_and_forget)
    token = gateway.token("gm", [GAME_MASTER])

    page = (await gateway.data(PAGE, token=token))["characters"]
    following = (await gateway.data(PAGE, {"after": page["pageInfo"]["endCursor"]}, token=token))["characters"]

    assert ended
    assert names(page["nodes"][0]["inventory"]) == {"sword", "dagger"}
    assert [one["name"] for one in following["nodes"]] == [bob["name"]]


async def test_a_character_that_is_deleted_between_two_reads_is_not_shown(
    gateway: GatewayClient, smithy: Smithy, before_rooms: Any
) -> None:
    await smithy.pick_up("sword")
    deleted = before_rooms(lambda: character_edits.delete_character(smithy.acting()))
    shown = "name gold inventory { name } location { name }"
    text = f"query ($id: ID!) {{ character(id: $id) {{ {shown} }} }}"

    answer = await gateway.data(text, {"id": character_id(smithy.ann)}, token=gateway.token("ann"))

    assert deleted
    assert answer == {"character": None}


async def test_a_deleted_character_is_not_among_those_of_its_player(
    gateway: GatewayClient, smithy: Smithy, before_rooms: Any
) -> None:
    await smithy.pick_up("sword")
    deleted = before_rooms(lambda: character_edits.delete_character(smithy.acting()))
    text = "{ viewer { characters { name gold location { name } } } }"

    answer = await gateway.data(text, token=gateway.token("ann"))

    assert deleted
    assert answer == {"viewer": {"characters": []}}


@pytest.mark.parametrize("projection", [None, {"name": 1, "gold": 1}])
async def test_a_page_whose_only_row_is_deleted_leads_to_the_next_page(
    smithy: Smithy, before_rooms: Any, projection: Projection | None
) -> None:
    bob = await older_character(smithy)
    await smithy.pick_up("sword")
    deleted = before_rooms(lambda: character_edits.delete_character(smithy.acting()))

    [page] = await character_reads.find_pages(smithy.db, [listing()], projection=projection, first=1, after=None)
    [following] = await character_reads.find_pages(
        smithy.db, [listing()], projection=projection, first=1, after=page.end
    )

    assert deleted
    assert (page.documents, page.has_next) == ([], True)
    assert [one["_id"] for one in following.documents] == [bob["_id"]]


@pytest.mark.parametrize(
    ("projection", "more"),
    [
        ({"name": 1, "gold": 1}, {"characters.gold"}),
        ({"items.name": 1}, {"characters.took"}),
        ({"location.name": 1, "gold": 1}, {"characters.gold", "items", "keepers.name"}),
    ],
)
async def test_a_read_fetches_no_more_of_a_room_than_it_shows(
    smithy: Smithy, monkeypatch: pytest.MonkeyPatch, projection: Projection, more: set[str]
) -> None:
    await smithy.pick_up("sword")
    read: list[Projection | None] = []
    real = locations.find_by_ids

    async def find_by_ids(db: Database, ids: Sequence[ObjectId], of_rooms: Projection | None = None) -> Any:
        read.append(of_rooms)
        return await real(db, ids, of_rooms)

    monkeypatch.setattr(locations, "find_by_ids", find_by_ids)
    whole = await smithy.shown()

    found = await character_reads.find_by_ids(smithy.db, [smithy.ann["_id"]], projection)

    shown: Document = dict(found[smithy.ann["_id"]])
    assert len(shown.get("items", whole["items"])) == len(whole["items"])
    assert {name: shown[name] for name in ("gold", "location") if name in shown}.items() <= whole.items()
    paths = set(read[-1] or ())
    every = {"characters.gold", "characters.took", "items", "keepers.name", "keepers", "characters", "keepers.items"}
    assert paths & every == more


async def test_a_turn_that_is_over_says_nothing_of_the_next_turn(smithy: Smithy, commands: Commands) -> None:
    await smithy.pick_up("sword")
    await smithy.settler.settled(smithy.db)
    smithy.clock.advance(seconds=6)
    [entry] = (await smithy.forgotten())["characters"]
    await smithy.buy("helmet", rooms=Rooms(settler=smithy.settler))
    [following] = (await smithy.forgotten())["characters"]
    commands.clear()

    shown = await smithy.shown()

    # A gateway of any version copies what the entry says besides.
    assert following["over"] == entry["over"]
    assert names(shown["items"]) == {"sword", "dagger", "helmet"}
    assert commands.names() == ["find game.characters", "find game.locations"]
    await smithy.end()
