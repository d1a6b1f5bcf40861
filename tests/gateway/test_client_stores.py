"""The stores of Apollo Client, Relay and graphcache, configured as docs/frontend.md says, are equal to the gateway."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.game.world.locations import LOCATIONS
from portico.schema.kinds import Kind
from tests.accounts.support.accounts import open_account
from tests.comments.support.discussions import open_on_product
from tests.content.support.photos import create_gallery, picture
from tests.content.support.site import create_section
from tests.game.support.scene import add_temple
from tests.game.support.stacks import give
from tests.game.support.world import character_id, keeper_id, room_id
from tests.shop.support.shop import stock_up
from tests.social.support.social import join
from tests.support.harness import IS_SOAK, GatewayClient, create_category
from tests.support.processes import environment, node_modules, run_node, served

AD = {"campaignId": "acme:spring", "adUnitId": "top", "ecpm": 100}
OTHERS = ("bo", "mara")
STEPS = 5_000 if IS_SOAK else 20


async def scene_of(gateway: GatewayClient) -> dict[str, object]:
    """Returns the ids of what the pages of the stores show."""
    temple = await add_temple(gateway.db)
    back = [{"direction": "S", "to": temple.room["_id"]}]
    await gateway.db[LOCATIONS.name].update_one({"_id": temple.market["_id"]}, {"$set": {"exits": back}})
    await join(gateway.db, "tester", *OTHERS)
    await give(gateway.db, "bo", "gem", 1_000_000)
    await gateway.result("placeAd", {"siteId": "site", "zoneId": "top", "ad": AD})
    # The browser then has a profile: a payload cannot lead from the root to an object that was not there before.
    seen = {"siteId": "site", "zoneId": "top", "userId": "browser", "campaignId": "acme:spring", "adUnitId": "top"}
    await gateway.result("recordAdEvent", {**seen, "kind": "CLICK"})
    for item in ("sword", "coin"):
        await give(gateway.db, "tester", item, 50)
    return {
        "owner": "tester",
        "sku": await stock_up(gateway, units=1_000_000),
        "otherSku": await stock_up(gateway, units=1_000_000),
        "account": await open_account(gateway.db, 1_000_000_000),
        "savings": await open_account(gateway.db, 10, name="Other"),
        "room": room_id(temple.room),
        "market": room_id(temple.market),
        "keeper": keeper_id(temple.room),
        "others": [Kind.encode_id("User", subject) for subject in OTHERS],
        "friend": character_id(temple.friend),
        "category": (await create_category(gateway))["id"],
        "shelf": (await create_category(gateway))["id"],
        "rack": (await create_category(gateway))["id"],
        "folder": (await create_section(gateway))["id"],
        "blog": (await create_section(gateway, "BLOG", slug="blog"))["id"],
        "gallery": (await create_gallery(gateway, slug="gallery"))["id"],
        "hero": character_id(temple.me),
        # What the friend can give back.
        "given": [],
        "pictures": [b64encode(picture(color=color)).decode() for color in ("teal", "navy", "olive")],
        "discussion": await open_on_product(gateway, "DOCUMENTS"),
    }


@pytest.mark.timeout(7_200 if IS_SOAK else 180)
@pytest.mark.parametrize("seed", range(3) if IS_SOAK else [1])
async def test_stores_are_equal_to_the_gateway_after_random_writes(
    gateway: GatewayClient, settings: Settings, tmp_path: Path, seed: int
) -> None:
    project, scene = node_modules("interop"), await scene_of(gateway)
    tokens = {"tester": gateway.token(), **{subject: gateway.token(subject, []) for subject in OTHERS}}
    limits = {"PORTICO_MAX_COST": "1000000", "PORTICO_SOCIAL_RATE": "1000000", "PORTICO_RENAME_RATE": "1000000"}
    with served(tmp_path / "serves", environment(replace(settings, jobs=True), **limits)) as server:
        arguments = ("stores.mjs", server.graphql, json.dumps(tokens), json.dumps(scene), str(seed), str(STEPS))
        done = await asyncio.to_thread(run_node, project, *arguments, timeout=7_000 if IS_SOAK else 150)

    assert done.returncode == 0, f"{done.stderr[:1_500]}"
    found = json.loads(done.stdout)
    assert [*found["failures"], *found["warnings"], *found["stale"], *found["mixed"]] == []
    assert found["steps"] == STEPS
    # Most pages are shown without the network.
    assert found["shown"] > found["missed"], found
