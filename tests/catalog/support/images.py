"""Images for tests: their uploads, and what they leave in the database."""

from __future__ import annotations

from typing import Any

from portico.resolvers.catalog.image_edits import ImageRules, Owner, add_image
from tests.content.support.photos import PicturesHere, picture
from tests.support.harness import Answer, GatewayClient
from tests.support.multipart import CONTENT_TYPE, PREFLIGHT, body_of, upload_parts

Given = dict[str, Any]
IMAGES = "images(first: 20) { id url thumbnailUrl(width: 40) contentType width height alt }"
SHOWN = f"... on ImagesPayload {{ product {{ sku {IMAGES} }} category {{ slug {IMAGES} }} }}"
ADD = (
    f"mutation ($input: AddImageInput!) {{ addImage(input: $input) {{ __typename {SHOWN} "
    "... on UserError { message } ... on InvalidInput { path } } }"
)


async def ask(gateway: GatewayClient, given: Given, data: bytes, **options: Any) -> Answer:
    """Sends an image."""
    body = body_of(upload_parts(ADD, {"input": {**given, "file": None}}, {"0": (["variables.input.file"], data)}))
    token = options.get("token", gateway.token())
    headers = {"content-type": CONTENT_TYPE, **PREFLIGHT, "authorization": f"Bearer {token}"}
    response = await gateway.http.post("/graphql", content=body, headers=headers)
    return Answer(response.status_code, response.json(), response.headers)


async def add(gateway: GatewayClient, given: Given, data: bytes | None = None) -> Any:
    """Sends an image. Returns the union member."""
    return (await ask(gateway, given, picture() if data is None else data)).data["addImage"]


async def add_directly(db: Any, kind: str, key: Any, now: Any, color: str = "teal") -> Any:
    """Adds an image by the resolver."""

    async def read() -> Any:
        yield picture(color=color)

    rules = ImageRules(1_000_000, PicturesHere())
    return await add_image(db, Owner(kind, key), alt=color, file=read(), rules=rules, now=now)
