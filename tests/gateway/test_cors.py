"""Web pages of other origins may send requests if the settings allow it."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
from structlog.testing import capture_logs
from websockets.exceptions import InvalidStatus

from portico.gateway.app import create_app
from portico.gateway.settings import Settings, SettingsError
from tests.support.harness import running
from tests.support.sockets import listening, opened

SHOP = "https://shop.example"
PREFLIGHT = {
    "origin": SHOP,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
}


async def preflight(settings: Settings, **headers: str) -> httpx.Response:
    """Returns the answer to a preflight request with these headers instead of the usual ones."""
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    async with running(settings) as gateway:
        return await gateway.http.options("/graphql", headers={**PREFLIGHT, **changed})


@pytest.mark.parametrize("origins", [SHOP, f"https://other.example, {SHOP}"])
async def test_a_page_of_an_allowed_origin_may_send_requests(settings: Settings, origins: str) -> None:
    async with running(replace(settings, cors_origins=origins)) as gateway:
        first = await gateway.http.options("/graphql", headers=PREFLIGHT)
        answer = await gateway.http.post("/graphql", json={"query": "{ viewer { subject } }"}, headers={"origin": SHOP})

    assert first.status_code == 200
    assert first.headers["access-control-allow-origin"] == SHOP
    assert answer.headers["access-control-allow-origin"] == SHOP
    exposed = answer.headers["access-control-expose-headers"]
    assert exposed == "x-request-id, etag, content-range, retry-after, ratelimit, ratelimit-policy, www-authenticate"
    assert answer.json() == {"data": {"viewer": None}}


async def test_a_page_of_another_origin_may_not_send_requests(settings: Settings) -> None:
    refused = await preflight(replace(settings, cors_origins=SHOP), origin="https://evil.example")

    assert refused.status_code == 400
    assert "access-control-allow-origin" not in refused.headers


async def test_without_the_setting_pages_of_other_origins_may_not_send_requests(settings: Settings) -> None:
    assert "access-control-allow-origin" not in (await preflight(settings)).headers


@pytest.mark.parametrize(
    "names",
    [
        "apollographql-client-name,apollographql-client-version,authorization,content-type",
        "graphql-client-name,graphql-client-version",
        "baggage,sentry-trace",
        "traceparent,tracestate",
        "x-requested-with,idempotency-key,last-event-id",
        "x-datadog-origin,x-datadog-parent-id,x-datadog-sampling-priority,x-datadog-trace-id",
        "x-apollo-operation-name,apollo-require-preflight,graphql-require-preflight",
    ],
)
async def test_the_headers_of_well_known_clients_are_allowed(settings: Settings, names: str) -> None:
    answer = await preflight(replace(settings, cors_origins=SHOP), access_control_request_headers=names)

    assert answer.status_code == 200
    assert set(names.split(",")) <= set(answer.headers["access-control-allow-headers"].lower().split(", "))


@pytest.mark.parametrize(("more", "status"), [(None, 400), ("x-shop, X-Tenant", 200), ("*", 200)])
async def test_other_headers_need_the_setting(settings: Settings, more: str | None, status: int) -> None:
    chosen = replace(settings, cors_origins=SHOP, cors_headers=more)
    answer = await preflight(chosen, access_control_request_headers="content-type,x-tenant")

    assert answer.status_code == status


def test_a_name_that_no_header_can_have_is_refused(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="PORTICO_CORS_HEADERS must be names of headers"):
        create_app(replace(settings, cors_origins="*", cors_headers="x tenant"))


@pytest.mark.parametrize("wrong", ["foo bar", "shop.example", "https://shop.example/", "https://a b", "**"])
async def test_an_origin_that_no_browser_sends_is_refused(settings: Settings, wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"^PORTICO_CORS_ORIGINS must be origins, .+; got "):
        create_app(replace(settings, cors_origins=f"{SHOP}, {wrong}"))


@pytest.mark.parametrize("origin", ["*", "null", "http://[::1]:3000", "capacitor://localhost", "app://."])
async def test_an_origin_that_a_browser_sends_is_accepted(settings: Settings, origin: str) -> None:
    answer = await preflight(replace(settings, cors_origins=f"{SHOP}, {origin}"), origin=SHOP)

    assert answer.status_code == 200


async def test_what_is_refused_is_in_the_log_once(settings: Settings) -> None:
    async with running(replace(settings, cors_origins=SHOP, log_level="warning")) as gateway:
        with capture_logs() as logs:
            for _ in range(2):
                for changed in ({"origin": "https://evil.example"}, {"access-control-request-headers": "x-tenant"}):
                    await gateway.http.options("/graphql", headers={**PREFLIGHT, **changed})

    refused = {"event": "page refused", "log_level": "warning", "method": "POST", "not_logged": 0}
    headers = PREFLIGHT["access-control-request-headers"]
    assert logs == [
        {**refused, "why": "Disallowed CORS origin", "origin": "https://evil.example", "headers": headers},
        {**refused, "why": "Disallowed CORS headers", "origin": SHOP, "headers": "x-tenant"},
    ]


async def test_without_the_setting_a_refusal_names_it_in_the_log(settings: Settings) -> None:
    async with running(replace(settings, log_level="warning")) as gateway:
        with capture_logs() as logs:
            await gateway.http.options("/graphql", headers=PREFLIGHT)
            async with listening(gateway) as port:
                with pytest.raises(InvalidStatus):
                    async with opened(port, origin=SHOP):
                        raise AssertionError("opened")

    assert [(line["event"], line["origin"], line["why"].partition(" ")[0]) for line in logs] == [
        ("page refused", SHOP, "PORTICO_CORS_ORIGINS"),
        ("page refused", SHOP, "WebSocket:"),
    ]
