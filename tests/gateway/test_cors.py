"""Web pages of other origins may send requests if the settings allow it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portico.gateway.settings import Settings
from tests.support.harness import running

PREFLIGHT = {
    "origin": "https://shop.example",
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
}


@pytest.mark.parametrize("origins", ["https://shop.example", "https://other.example, https://shop.example"])
async def test_a_page_of_an_allowed_origin_may_send_requests(settings: Settings, origins: str) -> None:
    async with running(replace(settings, cors_origins=origins)) as gateway:
        preflight = await gateway.http.options("/graphql", headers=PREFLIGHT)
        answer = await gateway.http.post(
            "/graphql", json={"query": "{ viewer { subject } }"}, headers={"origin": "https://shop.example"}
        )

    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://shop.example"
    assert answer.headers["access-control-allow-origin"] == "https://shop.example"
    exposed = answer.headers["access-control-expose-headers"]
    assert exposed == "x-request-id, etag, content-range, retry-after, ratelimit, ratelimit-policy"
    assert answer.json() == {"data": {"viewer": None}}


async def test_a_page_of_another_origin_may_not_send_requests(settings: Settings) -> None:
    async with running(replace(settings, cors_origins="https://shop.example")) as gateway:
        preflight = await gateway.http.options("/graphql", headers={**PREFLIGHT, "origin": "https://evil.example"})

    assert preflight.status_code == 400
    assert "access-control-allow-origin" not in preflight.headers


async def test_without_the_setting_pages_of_other_origins_may_not_send_requests(settings: Settings) -> None:
    async with running(settings) as gateway:
        preflight = await gateway.http.options("/graphql", headers=PREFLIGHT)

    assert "access-control-allow-origin" not in preflight.headers
