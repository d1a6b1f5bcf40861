"""Products that have something in common with a product."""

from __future__ import annotations

import pytest

from tests.catalog.support.catalog import add_categories, add_products, album, film, product
from tests.support.harness import GatewayClient

pytestmark = pytest.mark.both_drivers

RELATED = """
query ($sku: String, $first: Int!) {
  product(sku: $sku) { related(first: $first) { __typename sku title ... on AudioAlbum { artist } } }
}
"""


async def related(gateway: GatewayClient, sku: str, first: int = 20) -> list[str]:
    found = (await gateway.data(RELATED, {"sku": sku, "first": first}))["product"]["related"]
    return [one["sku"] for one in found]


async def add_shop(gateway: GatewayClient) -> None:
    await add_categories(gateway.db, [{"slug": "jazz", "name": "Jazz"}, {"slug": "films", "name": "Films"}])

    def jazz(sku: str, artist: str, *genres: str, place: str = "jazz") -> dict[str, object]:
        details = {"artist": artist, "genres": list(genres)}
        return album(sku=sku, categories=[place] if place else [], **details)

    await add_products(
        gateway.db,
        [
            jazz("kind", "Miles Davis", "Modal", "Cool"),
            jazz("brew", "Miles Davis", place=""),
            jazz("miles", "Miles Davis"),
            jazz("train", "John Coltrane", "modal", "cool"),
            jazz("monk", "Thelonious Monk"),
            jazz("rock", "Somebody", place=""),
            film(sku="heat", actors=["Al Pacino", "Robert De Niro"], categories=["films"]),
            film(sku="casino", actors=["Robert De Niro"]),
            product(sku="lamp"),
        ],
    )


async def test_people_count_more_than_categories_and_these_more_than_genres(gateway: GatewayClient) -> None:
    await add_shop(gateway)

    assert await related(gateway, "kind") == ["miles", "train", "brew", "monk"]
    assert await related(gateway, "heat") == ["casino"]
    assert await related(gateway, "lamp") == []
    assert await related(gateway, "kind", 1) == ["miles"]


async def test_those_of_all_products_of_a_page_take_one_command(gateway: GatewayClient) -> None:
    await add_shop(gateway)
    gateway.commands.clear()

    page = await gateway.data("{ products { nodes { sku related(first: 3) { sku title images { url } } } } }")

    assert gateway.commands.names() == ["find products", "aggregate products"]
    by_sku = {node["sku"]: [one["sku"] for one in node["related"]] for node in page["products"]["nodes"]}
    assert by_sku["casino"] == ["heat"]
    assert by_sku["kind"] == ["miles", "train", "brew"]


async def test_the_number_is_bounded(gateway: GatewayClient) -> None:
    await add_shop(gateway)

    for first in (0, 21):
        answer = await gateway.ask(RELATED, {"sku": "kind", "first": first})
        assert answer.codes == ["BAD_USER_INPUT"]
