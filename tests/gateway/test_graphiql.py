"""GraphiQL: the page, its policy, its configuration, and its use in a real browser."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from portico.gateway.demo import demo_token
from portico.gateway.pages import explorer
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from tests.support.demo import RestoredDemo
from tests.support.domains import DOMAINS
from tests.support.harness import SECRET, GatewayClient, running
from tests.support.processes import Served, chromium, environment, node_modules, run_node, served
from tests.support.sockets import listening

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
CDN_POLICY = POLICY.replace("script-src 'self'", "script-src 'self' https://unpkg.com").replace(
    "style-src 'self' 'unsafe-inline'", "style-src 'self' 'unsafe-inline' https://unpkg.com"
)
EXAMPLES = {title: path.read_text() for domain in DOMAINS.all for title, path in domain.examples}
OPERATION = re.compile(r"^(?:query|mutation|subscription) (\w+)", re.MULTILINE)
PAGES = ["/", "/graphiql/", "/graphql"]
HTML = {"accept": "text/html"}
ASKED = ("CategoryPage", "breadcrumbs")
needs_build = pytest.mark.skipif(not explorer.is_built(), reason="GraphiQL is not built: run `make graphiql`")


@needs_build
@pytest.mark.parametrize("path", PAGES)
async def test_the_page_has_a_strict_policy_and_is_revalidated_on_each_visit(reader: GatewayClient, path: str) -> None:
    page = await reader.http.get(path, headers=HTML)

    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == POLICY
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-cache"
    assert "<title>Portico</title>" in page.text


@needs_build
async def test_the_assets_of_the_page_come_from_the_gateway_and_are_cached_forever(reader: GatewayClient) -> None:
    page = await reader.http.get("/")
    assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)

    assert assets
    for asset in assets:
        assert asset.startswith("/graphiql/assets/")
        found = await reader.http.get(asset)
        assert found.status_code == 200
        assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert found.headers["content-security-policy"] == POLICY
        assert found.headers["x-content-type-options"] == "nosniff"


@needs_build
@pytest.mark.parametrize("path", ["/graphiql/assets/no.js", "/graphiql/../app.py", "/graphiql/%2e%2e/app.py", "/x"])
async def test_nothing_else_is_served(reader: GatewayClient, path: str) -> None:
    assert (await reader.http.get(path)).status_code == 404


async def test_the_configuration_has_a_tab_for_each_file_of_examples_and_no_token(reader: GatewayClient) -> None:
    demo_token.get_or_make(reader.settings)

    response = await reader.http.get("/graphiql/config.json")

    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    assert response.json() == {
        "endpoint": "/graphql",
        "headers": {},
        "tabs": [{"title": title, "query": text} for title, text in EXAMPLES.items()],
    }


CONFIG = "/graphiql/config.json"
LOOPBACK = "127.0.0.1"


async def headers_of(
    gateway: GatewayClient, host: str, *, peer: str = LOOPBACK, port: int = 8000, **headers: str
) -> dict[str, str]:
    """The headers in GraphiQL's configuration, for a request to a demo on this port."""
    transport = httpx.ASGITransport(app=gateway.app, client=(peer, 50_000))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{port}") as client:
        response = await client.get(CONFIG, headers={"host": host, **headers})
    found: dict[str, str] = response.json()["headers"]
    return found


@pytest.fixture
async def demo_gateway(settings: Settings) -> AsyncIterator[GatewayClient]:
    async with running(replace(settings, demo=True)) as gateway:
        demo_token.get_or_make(gateway.settings)
        yield gateway


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LocalHost:8000", "[::1]:8000"])
async def test_the_demo_gives_its_token_to_pages_on_this_machine(demo_gateway: GatewayClient, host: str) -> None:
    token = demo_token.read(demo_gateway.settings)

    assert await headers_of(demo_gateway, host) == {"authorization": f"Bearer {token}"}
    assert await headers_of(demo_gateway, host, peer="::1") == {"authorization": f"Bearer {token}"}
    viewer = await demo_gateway.data("{ viewer { subject roles } }", token=token)
    assert viewer == {"viewer": {"subject": "demo", "roles": ["ADMIN"]}}


async def test_the_demo_on_port_80_gives_its_token_to_a_host_without_a_port(demo_gateway: GatewayClient) -> None:
    assert await headers_of(demo_gateway, "localhost", port=80)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "rebound.example:8000",
        "localhost.rebound.example:8000",
        "localhost:9000",
        "localhost:8000.rebound.example",
        "rebound.example@localhost:8000",
        "localhost@rebound.example:8000",
        "127.0.0.1.nip.example:8000",
        "0.0.0.0:8000",
        "192.168.0.2:8000",
        "[::ffff:7f00:1]:8000",
        "localhost.:8000",
        "",
    ],
)
async def test_the_demo_gives_its_token_to_no_other_host(demo_gateway: GatewayClient, host: str) -> None:
    assert await headers_of(demo_gateway, host) == {}


async def test_the_demo_gives_its_token_to_no_other_machine(demo_gateway: GatewayClient) -> None:
    for peer in ("192.0.2.1", "2001:db8::1"):
        assert await headers_of(demo_gateway, "localhost:8000", peer=peer) == {}


async def test_the_demo_gives_its_token_to_no_page_of_another_origin(settings: Settings) -> None:
    async with running(replace(settings, demo=True, cors_origins="*")) as gateway:
        demo_token.get_or_make(gateway.settings)

        assert await headers_of(gateway, "localhost:8000", origin="http://localhost:9000") == {}


async def test_a_request_with_two_host_headers_gets_no_token(demo_gateway: GatewayClient) -> None:
    async with listening(demo_gateway) as port:
        own = f"127.0.0.1:{port}"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {CONFIG} HTTP/1.1\r\nHost: {own}\r\nHost: rebound.example\r\n".encode())
        writer.write(b"Connection: close\r\n\r\n")
        two_hosts = await reader.read()
        writer.close()
        async with httpx.AsyncClient() as client:
            one_host = await client.get(f"http://{own}{CONFIG}")

    assert b"Bearer" not in two_hosts
    assert "Bearer" in one_host.text


async def test_only_the_demo_gives_a_token_to_pages_on_this_machine(reader: GatewayClient) -> None:
    demo_token.get_or_make(reader.settings)

    assert await headers_of(reader, "localhost:8000") == {}


async def test_the_demo_keeps_its_token_and_replaces_one_that_is_no_longer_valid(settings: Settings) -> None:
    kept = settings.data_dir / "demo-token"

    first, again = demo_token.get_or_make(settings), demo_token.get_or_make(settings)
    kept.write_text("nonsense")
    anew = demo_token.get_or_make(settings)

    assert first == again
    assert kept.read_text() == anew == demo_token.read(settings)
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", EXAMPLES)
async def test_every_example_is_an_operation_of_the_schema_within_the_limits(reader: GatewayClient, name: str) -> None:
    operation = reader.state.executor.operations.get(EXAMPLES[name])
    operations = OPERATION.findall(EXAMPLES[name])

    assert operations
    for found in operations:
        reader.state.executor.operations.check(operation, found, {})


async def test_without_a_build_the_page_says_what_to_do(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explorer, "BUILT", tmp_path)
    async with running(settings) as gateway:
        for path in PAGES:
            page = await gateway.http.get(path, headers=HTML)

            assert page.status_code == 200
            assert page.headers["content-security-policy"] == POLICY
            assert page.headers["cache-control"] == "no-cache"
            assert "make graphiql" in page.text
            assert "PORTICO_GRAPHIQL=cdn" in page.text


async def test_graphiql_can_come_from_a_public_cdn(settings: Settings) -> None:
    async with running(replace(settings, graphiql="cdn")) as gateway:
        page = await gateway.http.get("/")
        own = re.findall(r'(?:src|href)="(/[^"]+)"', page.text)
        foreign = re.findall(r'(?:src|href)="(https?:[^"]+)"', page.text)
        files = [await gateway.http.get(path) for path in own]

    assert page.headers["content-security-policy"] == CDN_POLICY
    assert page.headers["cache-control"] == "no-cache"
    assert foreign
    assert all(re.fullmatch(r"https://unpkg\.com/[a-z-]+@\d+\.\d+\.\d+/\S+", link) for link in foreign)
    assert [found.status_code for found in files] == [200, 200]


async def test_graphiql_can_be_turned_off(settings: Settings) -> None:
    async with running(replace(settings, graphiql="off")) as gateway:
        page = await gateway.http.get("/")
        for path in ("/graphiql/", "/graphiql/config.json", "/graphiql/x.js"):
            assert (await gateway.http.get(path)).status_code == 404
        assert await gateway.data("{ __typename }") == {"__typename": "Query"}

    assert "turned off" in page.text
    assert "<script" not in page.text


@pytest.fixture(scope="module")
def served_demo(
    mongodb_uri: str, restored_demo: RestoredDemo, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """`portico demo`, which two browsers use, each with a storage of its own."""
    folder, uri = tmp_path_factory.mktemp("demo"), Secret(mongodb_uri)
    settings = Settings(mongodb_uri=uri, database=restored_demo.name, data_dir=folder, jwt_secret=SECRET, jobs=False)
    with served(folder, environment(settings), command="demo") as found:
        yield found


def seen_in_browser(script: str, gateway: Served, *arguments: str) -> Any:
    """Runs a script with a browser at the page of the gateway. Returns what it has seen."""
    browser, project = chromium(), node_modules("browser")
    done = run_node(project, script, browser, gateway.url + "/", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_build
def test_graphiql_works_in_a_browser_within_its_policy(served_demo: Served) -> None:
    seen = seen_in_browser("graphiql.mjs", served_demo, *ASKED)

    assert "To pay by token, set PORTICO_PAYMENT_URL" in served_demo.process.output
    assert seen["title"] == "Portico"
    assert seen["tabs"] == list(EXAMPLES)
    assert '"name": "Jazz"' in seen["result"]
    assert '"name": "The Smithy"' in seen["walk"]
    assert seen["suggestions"] == ["viewer"]
    assert '"subject": "demo"' in seen["viewer"]
    assert (seen["problems"], seen["violations"], seen["foreign"], seen["failed"]) == ([], [], [], [])


@needs_build
def test_on_a_narrow_screen_the_panes_are_below_each_other_and_no_button_covers_text(served_demo: Served) -> None:
    seen = seen_in_browser("narrow.mjs", served_demo, *ASKED)

    assert seen["tabs"] == seen["reloaded"] == list(EXAMPLES)
    for found, panes in ((seen["answered"], 5), (seen["documented"], 6)):
        boxes = [box for _, box in found["panes"]]
        assert len(boxes) == panes
        for upper, lower in itertools.pairwise(boxes):
            assert upper["bottom"] <= lower["top"] + 1
        assert [box for box in boxes if box["left"] < 0 or box["right"] > 390 or box["right"] - box["left"] < 350] == []
        assert boxes[-1]["bottom"] <= 844
        assert (found["covered"], found["outside"], found["width"]) == ([], [], 390)
        assert found["texts"] > 5


def test_graphiql_from_a_cdn_shows_the_titles_also_on_a_narrow_screen(settings: Settings, tmp_path: Path) -> None:
    with served(tmp_path, environment(settings, PORTICO_GRAPHIQL="cdn")) as gateway:
        seen = seen_in_browser("cdn.mjs", gateway)

    assert seen["tabs"] == seen["edited"] == seen["reloaded"] == list(EXAMPLES)
    for upper, lower in itertools.pairwise(seen["panes"]):
        assert upper["bottom"] <= lower["top"] + 1
    assert [box for box in seen["panes"] if box["left"] < 0 or box["right"] > 390 or box["bottom"] > 844] == []
    assert min(box["bottom"] - box["top"] for box in seen["panes"]) > 30
    assert (seen["width"], seen["problems"]) == (390, [])
