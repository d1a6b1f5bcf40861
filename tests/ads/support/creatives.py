"""Creatives and clicks for tests, through the public schema and the routes."""

from __future__ import annotations

import io
from typing import Any

import httpx
from PIL import Image

from tests.ads.support.ads import Given
from tests.ads.support.serving import view
from tests.support.harness import Answer, GatewayClient
from tests.support.multipart import CONTENT_TYPE, PREFLIGHT, body_of, upload_parts

CREATIVE = "id campaignId adUnitId text link imageUrl size { width height }"
SET = f"""mutation ($input: SetAdCreativeInput!) {{ setAdCreative(input: $input) {{
  __typename ... on UserError {{ message }} ... on InvalidInput {{ path }}
  ... on AdCreativePayload {{ creative {{ {CREATIVE} }} }} }} }}"""
PAGE = f"""mutation ($input: ServeAdsInput!) {{ serveAds(input: $input) {{
  ... on ServedAdsPayload {{ ads {{ id adUnitId clickUrl creative {{ {CREATIVE} }} }} }} }} }}"""
LINK = "https://acme.example/spring?from=ad#top"


def creative(campaign: str = "acme:spring", unit: str = "banner", **fields: Any) -> Given:
    """An `SetAdCreativeInput` without an image."""
    return {"campaignId": campaign, "adUnitId": unit, "text": "Spring is here.", "link": LINK, **fields}


def banner(width: int = 60, height: int = 20, form: str = "PNG", color: str = "teal") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), color).save(out, form)
    return out.getvalue()


async def send(gateway: GatewayClient, given: Given, image: bytes | None = None) -> Answer:
    """Sets a creative, with an image if there is one."""
    if image is None:
        return await gateway.ask(SET, {"input": given})
    files = {"file": (["variables.input.image"], image)}
    headers = {"content-type": CONTENT_TYPE, **PREFLIGHT, "authorization": f"Bearer {gateway.token()}"}
    body = body_of(upload_parts(SET, {"input": {**given, "image": None}}, files))
    answer = await gateway.http.post("/graphql", content=body, headers=headers)
    return Answer(answer.status_code, answer.json(), answer.headers)


async def set_creative(gateway: GatewayClient, given: Given | None = None, image: bytes | None = None) -> Any:
    """Sets a creative, which must succeed. Returns it."""
    answer = (await send(gateway, given or creative(), image)).data["setAdCreative"]
    assert answer["__typename"] == "AdCreativePayload", answer
    return answer["creative"]


async def served_page(gateway: GatewayClient, given: Given | None = None) -> list[Given]:
    """Serves ads to an anonymous page. Returns them with their creatives and links."""
    ads: list[Given] = (await gateway.data(PAGE, {"input": given or view()}, token=None))["serveAds"]["ads"]
    return ads


async def click_url(gateway: GatewayClient, given: Given | None = None) -> str:
    """Serves an ad. Returns the link of its click."""
    (one,) = await served_page(gateway, given)
    return str(one["clickUrl"])


async def follow(gateway: GatewayClient, url: str, method: str = "GET", **headers: str) -> httpx.Response:
    """Asks for a path of the gateway, without following redirects."""
    return await gateway.http.request(method, url, headers=headers, follow_redirects=False)


async def clicks(gateway: GatewayClient) -> int:
    """Returns how many clicks are recorded."""
    return await gateway.db["ads.clicks"].count_documents({})
