"""Creates products of every type, in categories."""

from __future__ import annotations

from typing import Any

from portico.testing.kits import Known
from tests.catalog.support.images import add_directly
from tests.support.harness import GatewayClient, create_category, create_product
from tests.support.ids import key_in

_FILM = {"directors": ["One"], "actors": ["Two", "Three"], "genres": ["Drama"], "aspectRatio": "1.85:1"}
_PRODUCTS = 12


async def seed(gateway: GatewayClient, _known: Known) -> Known:
    """Creates products of every type, in three levels of categories."""
    parent: dict[str, Any] = {}
    for slug in ("music", "jazz", "bop"):
        more = {"parentId": parent["id"]} if parent else {}
        parent = await create_category(gateway, name=slug.title(), slug=slug, **more)
    kinds: list[dict[str, Any]] = [
        {"categoryIds": [parent["id"]], "shipping": {"weight": 1.5}},
        {"type": "Film", "details": _FILM, "issueDate": "1999-03-31T00:00:00.000Z"},
        {"type": "Lamp", "details": {"watts": [1, 2.5, None], "nested": {"a": {"b": True}}}},
    ]
    made = [await create_product(gateway, sku=f"sku-{number}", **kinds[number % 3]) for number in range(_PRODUCTS)]
    for number in range(3):
        await add_directly(gateway.db, "Product", f"sku-{number}", gateway.state.clock.now())
    await add_directly(gateway.db, "Category", key_in("Category", parent["id"]), gateway.state.clock.now())
    return {
        "id": [parent["id"], *(product["id"] for product in made)],
        "sku": [product["sku"] for product in made],
        "slug": ["music", "bop"],
    }
