"""Reads of characters whose last step is still to come, while something happens between two of their commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.game.world import character_reads, locations
from portico.resolvers.game.world.characters import CHARACTERS
from portico.schema.game.game_masters import GAME_MASTER
from tests.game.support.smithy import Smithy, names
from tests.game.support.world import add_character
from tests.support.harness import GatewayClient

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

        monkeypatch.setattr(character_reads.locations, "find_by_ids", find_by_ids)
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
