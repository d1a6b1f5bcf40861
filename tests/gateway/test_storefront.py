"""The storefront: its page, its sign-in, its documents, and a walk through it in a real browser."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from graphql import FragmentDefinitionNode, OperationDefinitionNode, parse, print_ast

from portico.gateway.auth import Authenticator
from portico.gateway.cli import document_checks
from portico.gateway.clock import SystemClock
from portico.gateway.pages import storefront
from portico.gateway.settings import Settings
from portico.schema.kinds import Kind
from tests.support.harness import IS_SOAK, GatewayClient, running
from tests.support.processes import chromium, environment, node_modules, run_node, served
from tests.support.rooms import ROOT

SOURCES = ROOT / "examples" / "storefront" / "src"
PAGE = ROOT / "docs" / "storefront.md"
SESSION = "/shop/session.json"
LOOPBACK = "127.0.0.1"
# A run checks the accessibility of one of so many parts of the pages, and another run that of another one.
PARTS = 1 if IS_SOAK else 3
needs_build = pytest.mark.skipif(
    not storefront.is_built(), reason="the storefront is not built: run `make storefront`, which needs Node.js"
)


def served_by(settings: Settings) -> Settings:
    return replace(settings, demo=True, document_files=str(storefront.manifest()))


@pytest.fixture
async def shop(settings: Settings) -> AsyncIterator[GatewayClient]:
    async with running(served_by(settings)) as gateway:
        yield gateway


@pytest.mark.sample(2)
@needs_build
@pytest.mark.parametrize("path", ["/shop", "/shop/", "/shop/c/jazz", "/shop/nothing/here"])
async def test_the_page_is_at_every_address_and_allows_only_its_own_scripts(shop: GatewayClient, path: str) -> None:
    page = await shop.http.get(path)

    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-cache"
    assert "script-src 'self'; style-src 'self';" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    for asset in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        assert asset.startswith("/shop/assets/")
        found = await shop.http.get(asset)
        assert found.status_code == 200
        assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert found.headers["x-content-type-options"] == "nosniff"


@needs_build
@pytest.mark.parametrize("path", ["/shop/assets/nothing.js", "/shop/assets/..%2f..%2fexplorer.py", "/shop/assets/"])
async def test_no_other_file_is_served(shop: GatewayClient, path: str) -> None:
    found = await shop.http.get(path)

    assert found.status_code == 404 or found.text == (await shop.http.get("/shop")).text


@needs_build
async def test_only_the_demo_that_trusts_its_documents_serves_the_storefront(settings: Settings) -> None:
    for other in (replace(served_by(settings), demo=False), replace(settings, demo=True)):
        async with running(other) as gateway:
            assert [(await gateway.http.get(path)).status_code for path in ("/shop", SESSION)] == [404, 404]


async def session_of(
    gateway: GatewayClient, query: str = "", *, host: str = "localhost:8000", peer: str = LOOPBACK, **headers: str
) -> httpx.Response:
    """Asks for the session, as a page on this machine does by default."""
    transport = httpx.ASGITransport(app=gateway.app, client=(peer, 50_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        return await client.get(SESSION + query, headers={"host": host, **headers})


@needs_build
@pytest.mark.usefixtures("demo")
async def test_a_page_on_this_machine_can_sign_in_as_members_of_the_demo_without_a_role(shop: GatewayClient) -> None:
    members = (await session_of(shop)).json()["members"]

    assert members
    for member in members:
        answer = await session_of(shop, f"?subject={member['subject']}")
        assert answer.headers["cache-control"] == "no-store"
        asked = "{ viewer { subject roles user { id } } }"
        found = (await shop.data(asked, token=answer.json()["token"]))["viewer"]
        assert found == {"subject": member["subject"], "roles": [], "user": {"id": member["userId"]}}


@needs_build
@pytest.mark.parametrize(
    "other",
    [
        {"host": "rebound.example:8000"},
        {"host": "localhost:9000"},
        {"peer": "192.0.2.1"},
        {"origin": "http://localhost:9000"},
        {"origin": "null"},
    ],
    ids=["rebound", "port", "machine", "origin", "opaque"],
)
async def test_nobody_else_gets_a_token(shop: GatewayClient, other: dict[str, str]) -> None:
    for query in ("", "?subject=demo"):
        answer = await session_of(shop, query, **other)
        assert (answer.status_code, answer.content) == (404, b"")


@pytest.mark.sample(2)
@needs_build
@pytest.mark.parametrize("subject", ["viktor", "", "admin", "demo%20", "portico"])
async def test_there_are_tokens_of_no_other_subject(shop: GatewayClient, subject: str) -> None:
    assert (await session_of(shop, f"?subject={subject}")).status_code == 404


@pytest.mark.parametrize("text", ["{ nothing }", "{ __typename }"], ids=["outdated", "fits"])
def test_a_storefront_that_does_not_fit_the_schema_is_left_out(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(storefront, "BUILT", tmp_path)
    monkeypatch.setenv("PORTICO_DOCUMENT_FILES", "own.json")
    (tmp_path / "index.html").touch()
    storefront.manifest().write_text(json.dumps({"a": text}))

    trusted = document_checks.trust_storefront(replace(settings, document_files="own.json"))

    fits = text == "{ __typename }"
    assert trusted == fits
    assert os.environ["PORTICO_DOCUMENT_FILES"] == (f"own.json,{storefront.manifest()}" if fits else "own.json")


def operations() -> dict[str, str]:
    """Returns the operations in the sources by their names, each with its fragments."""
    definitions = [one for file in sorted(SOURCES.rglob("*.graphql")) for one in parse(file.read_text()).definitions]
    fragments = {one.name.value: one for one in definitions if isinstance(one, FragmentDefinitionNode)}

    def text_of(operation: OperationDefinitionNode) -> str:
        used: dict[str, str] = {}
        waiting = [print_ast(operation)]
        while waiting:
            for name in re.findall(r"\.\.\.(\w+)", waiting.pop().replace("... on", "")):
                if name not in used:
                    used[name] = print_ast(fragments[name])
                    waiting.append(used[name])
        return "\n".join([print_ast(operation), *used.values()])

    found = [one for one in definitions if isinstance(one, OperationDefinitionNode)]
    return {one.name.value: text_of(one) for one in found if one.name is not None}


OPERATIONS = operations()
ENTRY = "/blog/a-listening-night"
DISCUSSION = "<the discussion of the entry>"
# What a page reads: the variables of its query, and how many commands it sends. After a comma, a case of a query.
BUDGETS: dict[str, tuple[dict[str, Any], int]] = {
    "Navigation": ({}, 1),
    "Viewer": ({}, 2),
    "Members": ({"ids": [Kind.encode_id("User", "mara"), Kind.encode_id("User", "ines")]}, 2),
    "Home": ({}, 7),
    "Category": ({"slug": "music", "sort": "NEWEST", "filter": {}}, 6),
    "Category, filtered": (
        {"slug": "music", "sort": "PRICE_ASC", "filter": {"genres": ["Jazz", "Rock"], "inStock": True}},
        8,
    ),
    "Search": ({"sort": "RELEVANCE", "filter": {"search": "blue"}}, 3),
    "Suggestions": ({"text": "love"}, 10),
    "Suggestions, two words": ({"text": "a love"}, 6),
    "Stock": ({"id": Kind.encode_id("Product", "LP-0002")}, 2),
    "Product": ({"slug": "kind-of-blue"}, 5),
    "CartPage": ({}, 2),
    "OrdersPage": ({}, 1),
    "Blog": ({}, 5),
    "Entry": ({"path": ENTRY}, 5),
    "Discussion": ({"id": DISCUSSION}, 7),
    "PublicPosts": ({}, 9),
    "NewsFeed": ({}, 12),
    "Unread": ({}, 2),
    "Notifications": ({}, 6),
    "OwnCharacter": ({}, 1),
    "Room": ({"id": "TG9jYXRpb246ZDYwMWJlMmY4MzBkNDAyMGYwMWNiNDky"}, 2),
}


def test_every_query_of_the_storefront_has_a_budget() -> None:
    queries = {name for name, text in OPERATIONS.items() if text.startswith("query")}

    assert {case.partition(",")[0] for case in BUDGETS} == queries


@pytest.mark.parametrize("name", OPERATIONS)
async def test_every_operation_fits_the_schema_within_the_limits(reader: GatewayClient, name: str) -> None:
    found = reader.state.executor.operations
    found.check(found.get(OPERATIONS[name]), name, {})


@pytest.mark.usefixtures("demo")
async def test_the_queries_of_the_pages_send_few_commands(gateway: GatewayClient) -> None:
    token = gateway.token("demo", [])
    entry = (await gateway.data(OPERATIONS["Entry"], {"path": ENTRY}, token=token))["content"]
    sent: dict[str, list[str]] = {}
    for case, (variables, _) in BUDGETS.items():
        given = {name: entry["discussion"]["id"] if value == DISCUSSION else value for name, value in variables.items()}
        gateway.commands.clear()
        await gateway.data(OPERATIONS[case.partition(",")[0]], given, token=token)
        sent[case] = sorted(gateway.commands.names())

    other = {case: commands for case, commands in sent.items() if len(commands) != BUDGETS[case][1]}
    assert other == {}


@needs_build
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("demo")
def test_two_members_use_the_storefront_in_a_browser(settings: Settings, tmp_path: Path) -> None:
    browser, project = chromium(), node_modules("browser")
    # Jobs deliver posts to news feeds.
    own = replace(settings, jwt_secret=None, jobs=True)
    expired = Authenticator(own).issue(
        "demo", [], now=SystemClock().now() - timedelta(hours=1), lasts=timedelta(minutes=1)
    )

    with served(tmp_path / "process", environment(own), command="demo") as gateway:
        part = str(PARTS), str(random.randrange(PARTS))
        done = run_node(project, "storefront.mjs", browser, f"{gateway.url}/shop", expired, *part, timeout=300)
        printed = gateway.process.output

    assert done.returncode == 0, done.stderr
    assert f"The storefront is at {gateway.url}/shop." in printed
    seen = json.loads(done.stdout)
    assert (seen["foreign"], seen["problems"], seen["failed"]) == ([], [], [])
    assert (seen["inaccessible"], seen["overflowing"]) == ([], [])
    assert (seen["all"], seen["filtered"], seen["address"]) == ("83 products", "10 products", "/c/music?genres=Jazz")
    assert seen["priced"] == "/c/music?genres=Jazz&minPrice=1000&maxPrice=1499"
    assert seen["anyPrice"] == seen["address"]
    assert seen["suggested"] == ["Jazz category", "A Love Supreme"]
    assert seen["found"] == "/p/a-love-supreme"
    assert seen["covers"] == {"/c/music": "Music", "/p/a-love-supreme": "Cover of A Love Supreme"}
    # The first token was refused, and renewed. The answer to the first write was lost, and the write repeated.
    assert seen["refused"] > 0
    assert seen["writes"] == {"sent": 2, "keys": 1}
    # The page gave up on the second write, and the user repeated it.
    assert (seen["attempts"]["sent"], seen["attempts"]["keys"]) == (6, 1)
    assert seen["quantity"] == ["1", "2", "4"]
    assert seen["orders"] == ["4 of A Love Supreme, $79.96"]
    statuses = [[text.partition(",")[0] for text in order] for order in seen["history"]]
    assert statuses == [["Placed", "On its way"], ["Placed", "Cancelled"]]
    assert seen["stock"] == ["In stock", "Sold out", "In stock"]
    assert seen["cart"] == "Cart, 0 items"
    assert seen["comments"] == [["Shall I bring two chairs?", "Bring three.", "Three it is."]] * 2
    # A reply raises the number and comes into the list, and a mark as read shows in both windows of a member.
    before, replied, *read = seen["unread"]
    assert (replied, read) == (before + 1, [0, 0])
    assert seen["notified"] == ["Ines has replied to your comment", "Ines has commented on your post"]
    # Robin goes to the second room, and a game master takes Robin back to the first.
    assert seen["rooms"] == ["The Temple of Lamps", "The Temple Steps", "The Temple of Lamps"]
    require_figures(seen["figures"])


def require_figures(measured: dict[str, int]) -> None:
    """Compares what the first visit has loaded with the figures in the docs, within a tenth."""
    found = re.search(r"\| the first visit \| (\d+) \| (\d+) kB \|", PAGE.read_text())
    assert found is not None
    assert measured["requests"] == int(found[1])
    assert measured["bytes"] / 1_000 == pytest.approx(int(found[2]), rel=0.1)


@needs_build
def test_its_build_prints_nothing_unless_it_fails(tmp_path: Path) -> None:
    project, copy = SOURCES.parent, tmp_path / "examples" / "storefront"
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("node_modules"))
    (copy / "node_modules").symlink_to(project / "node_modules")
    shutil.copy(ROOT / "schema.graphql", tmp_path)

    built = subprocess.run(
        ["npm", "run", "--silent", "build"], cwd=copy, capture_output=True, text=True, timeout=120, check=False
    )

    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    assert (tmp_path / "gateway" / "pages" / "static" / "storefront" / "index.html").exists()
