"""The gateway with the clients of other projects, configured as docs/frontend.md says."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from pathlib import Path

import httpx
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
from tests.support.harness import IS_SOAK, GatewayClient, create_category, create_product, rename_product
from tests.support.processes import TESTS, chromium, environment, found_chromium, node_modules, run_node, served
from tests.support.replica_sets import free_ports

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
        **{name: (await create_category(gateway))["id"] for name in ("category", "shelf", "rack")},
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


EXAMPLES = sorted((TESTS / "interop" / "live").glob("*.mjs"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_page_shows_the_code_that_is_tested(example: Path) -> None:
    page = (TESTS.parent / "docs" / "frontend.md").read_text()

    assert f"```js\n{example.read_text()}```\n" in page


@pytest.mark.timeout(120)
async def test_clients_show_each_new_state_of_a_live_query(gateway: GatewayClient, tmp_path: Path) -> None:
    project = node_modules("interop")
    product = await create_product(gateway, title="A")
    browser = found_chromium()
    with served(tmp_path / "other", environment(gateway.settings)) as other:
        given = [other.graphql, gateway.token("ann", []), product["sku"], "A,B,C", *([browser] if browser else [])]
        process = await asyncio.create_subprocess_exec(
            "node", "live.mjs", *given, cwd=project, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        for title in ("B", "C"):
            # A client may skip a title that is replaced before it shows it.
            if await process.stdout.readline():
                product = await rename_product(gateway, product, title)
        written, errors = await process.communicate()

    assert process.returncode == 0, errors.decode()
    clients = ["Apollo Client", "urql", "Relay", "EventSource", *(["Chromium"] if browser else [])]
    assert json.loads(written) == {name: ["A", "B", "C"] for name in clients}


@pytest.mark.timeout(120)
async def test_a_live_list_shows_its_rows_beside_a_shorter_one(gateway: GatewayClient, tmp_path: Path) -> None:
    for title in "BCDE":
        await create_product(gateway, title=title)
    with served(tmp_path / "other", environment(gateway.settings)) as other:
        process = await asyncio.create_subprocess_exec(
            *("node", "lists.mjs", other.graphql, gateway.token("ann", []), "A"),
            cwd=node_modules("interop"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        if await process.stdout.readline():
            await create_product(gateway, title="A")
        written, errors = await process.communicate()

    assert process.returncode == 0, errors.decode()
    before, after = {"long": ["B", "C", "D"], "short": ["B"]}, {"long": ["A", "B", "C"], "short": ["A"]}
    clients = ("Apollo Client", "graphcache")
    assert json.loads(written) == {"before": dict.fromkeys(clients, before), "after": dict.fromkeys(clients, after)}


# As the app sends it, with `__typename`, because Apollo's manifest has what Apollo Client sends.
TRUSTED = """query Trusted($slug: String!) {
  category(slug: $slug) {
    id
    name
    __typename
  }
}"""


def manifest(folder: Path) -> tuple[Path, str]:
    """Writes a manifest as Apollo's tool does. Returns it with the id of its document."""
    key = hashlib.sha256(TRUSTED.encode()).hexdigest()
    operation = {"id": key, "name": "Trusted", "type": "query", "body": TRUSTED}
    path = folder / "persisted-query-manifest.json"
    path.write_text(json.dumps({"format": "apollo-persisted-query-manifest", "version": 1, "operations": [operation]}))
    return path, key


@pytest.mark.timeout(180)
def test_an_apollo_app_of_another_origin_works_in_a_browser(settings: Settings, tmp_path: Path) -> None:
    browser, project = chromium(), node_modules("interop")
    path, key = manifest(tmp_path)
    (port,) = free_ports(1)
    variables = {"PORTICO_CORS_ORIGINS": f"http://localhost:{port}", "PORTICO_DOCUMENT_FILES": str(path)}
    env = environment(replace(settings, domains="catalog,comments"), **variables)

    with served(tmp_path / "demo", env, command="demo") as gateway:
        shown = httpx.get(f"{gateway.url}/graphiql/config.json", timeout=20).json()["headers"]["authorization"]
        token = shown.removeprefix("Bearer ")
        opened = gateway.ask(
            'mutation { openDiscussion(input: { subjectId: "UHJvZHVjdDpMUC0wMDAx" }) '
            "{ ... on DiscussionPayload { discussion { id } } } }",
            token,
        ).json()
        given = {
            "url": gateway.graphql,
            "token": token,
            "ids": {"Trusted": key},
            "discussion": opened["data"]["openDiscussion"]["discussion"]["id"],
            "slug": "jazz",
        }
        done = run_node(project, "crossorigin.mjs", browser, str(port), json.dumps(given))

    assert done.returncode == 0, done.stderr[:2_000]
    assert json.loads(done.stdout) == {
        "query": "demo",
        "trusted": "Jazz",
        "mutation": "From afar",
        "subscription": "From afar",
        "refused": {"codes": ["UNAUTHENTICATED"]},
        "names": ["till 1.2"],
        "texts": [False],
        "problems": [],
    }


def test_every_audit_of_the_specification_passes(settings: Settings, tmp_path: Path) -> None:
    project = node_modules("audit")

    with served(tmp_path, environment(settings)) as gateway:
        done = run_node(project, "audit.mjs", gateway.graphql)

    assert done.returncode == 0, done.stderr
    audits = json.loads(done.stdout)
    assert [audit for audit in audits if audit["status"] != "ok"] == []
    assert Counter(audit["name"].split()[0] for audit in audits) == {"MUST": 13, "SHOULD": 23, "MAY": 25}


def test_lock_files_name_no_registry() -> None:
    locks = [TESTS / folder / "package-lock.json" for folder in ("audit", "browser", "interop")]
    locks.append(TESTS.parent / "gateway" / "pages" / "graphiql" / "package-lock.json")
    for lock in locks:
        assert "resolved" not in lock.read_text(), lock
        assert "://" not in lock.read_text(), lock
