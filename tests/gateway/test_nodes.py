"""Global ids: opaque, stable, and enough to fetch an object."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.errors import one_of
from portico.schema.kinds import Kind
from tests.catalog.support.catalog import add_categories, add_products, album, film, product
from tests.support.harness import GatewayClient, create_category, create_product

pytestmark = pytest.mark.both_drivers

NODE = "query ($id: ID!) { node(id: $id) { __typename id ... on Category { slug } ... on Product { sku } } }"
NODES = "query ($ids: [ID!]!) { nodes(ids: $ids) { __typename id ... on Category { slug } ... on Product { sku } } }"


def encoded(text: str | bytes) -> str:
    raw = text if isinstance(text, bytes) else text.encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


MALFORMED = [
    "",
    " ",
    "x",
    "product",
    "Product:p1",
    "é",
    "a" * 10_000,
    encoded("Product"),
    encoded("Product:"),
    encoded("Product:a\0b"),
    encoded(b"Product:\xff"),
    encoded("product:p1"),
    encoded("Order:1"),
    encoded("Node:1"),
    encoded("Category:1"),
    encoded(f"Category:{'A' * 24}"),
    encoded("Product:p1") + "=",
    encoded("Product:p1") + "==",
    " " + encoded("Product:p1"),
    encoded("Product:p1")[:6] + "!" + encoded("Product:p1")[6:],
]


@pytest.fixture(scope="module")
async def shop(shared: GatewayClient) -> GatewayClient:
    """A gateway for the tests that only read."""
    await add_categories(shared.db, [{"slug": "music", "name": "Music"}])
    await add_products(shared.db, [album(sku="p1"), film(sku="p 2/é:=😀"), product(sku="p3")])
    return shared


async def id_of(gateway: GatewayClient, slug: str) -> str:
    found: str = (await gateway.data(f'{{ category(slug: "{slug}") {{ id }} }}'))["category"]["id"]
    return found


async def test_every_object_can_be_fetched_by_its_id(shop: GatewayClient) -> None:
    data = await shop.data("{ products { nodes { __typename id sku } } categories { nodes { __typename id slug } } }")
    objects = [*data["products"]["nodes"], *data["categories"]["nodes"]]

    assert {one["__typename"] for one in objects} == {"AudioAlbum", "Film", "GeneralProduct", "Category"}
    for one in objects:
        assert (await shop.data(NODE, {"id": one["id"]}))["node"] == one
    assert (await shop.data(NODES, {"ids": [one["id"] for one in objects]}))["nodes"] == objects


async def test_ids_are_opaque_and_safe_in_urls(shop: GatewayClient) -> None:
    data = await shop.data("{ products { nodes { id sku } } }")

    for one in data["products"]["nodes"]:
        assert one["sku"] not in one["id"]
        assert set(one["id"]) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


async def test_an_id_does_not_change_when_its_object_changes(gateway: GatewayClient) -> None:
    category = await create_category(gateway)
    other = await create_category(gateway)
    made = await create_product(gateway)

    await gateway.result("renameCategory", {"id": category["id"], "name": "Other", "slug": "other"})
    await gateway.result("moveCategory", {"id": category["id"], "newParentId": other["id"]})
    await gateway.result("updateProduct", {"id": made["id"], "nonce": made["nonce"], "title": "Other"})

    assert (await gateway.data(NODE, {"id": category["id"]}))["node"]["slug"] == "other"
    assert (await gateway.data(NODE, {"id": made["id"]}))["node"]["sku"] == made["sku"]


async def test_nodes_come_in_the_order_of_the_ids_with_repetitions(shop: GatewayClient) -> None:
    music, p1, p3 = await id_of(shop, "music"), Kind.encode_id("Product", "p1"), Kind.encode_id("Product", "p3")
    ids = [p3, music, p1, p3, music]

    assert [one["id"] for one in (await shop.data(NODES, {"ids": ids}))["nodes"]] == ids
    assert (await shop.data(NODES, {"ids": []}))["nodes"] == []


async def test_a_missing_object_is_null(shop: GatewayClient) -> None:
    music = await id_of(shop, "music")
    ids = [Kind.encode_id("Product", "none"), music, Kind.encode_id("Category", ObjectId())]

    found = (await shop.data(NODES, {"ids": ids}))["nodes"]

    assert [one and one["id"] for one in found] == [None, music, None]
    assert (await shop.data(NODE, {"id": ids[0]})) == {"node": None}


async def test_a_deleted_object_is_null(gateway: GatewayClient) -> None:
    category, made = await create_category(gateway), await create_product(gateway)
    await gateway.result("deleteCategory", {"id": category["id"]})
    await gateway.result("deleteProduct", {"id": made["id"], "nonce": made["nonce"]})

    assert (await gateway.data(NODES, {"ids": [category["id"], made["id"]]}))["nodes"] == [None, None]


@pytest.mark.parametrize("bad", MALFORMED, ids=lambda bad: bad[:20])
async def test_a_malformed_id_is_like_that_of_no_object(shop: GatewayClient, bad: str) -> None:
    good = Kind.encode_id("Product", "p1")

    assert await shop.data(NODE, {"id": bad}) == {"node": None}
    many = (await shop.data(NODES, {"ids": [good, bad, good]}))["nodes"]
    assert [node and node["id"] for node in many] == [good, None, good]


@pytest.mark.parametrize("name", ["cart", "character", "location", "user", "trade", "node"])
@pytest.mark.parametrize("bad", ["", "x", encoded("Product:p1"), encoded("Cart:1")])
async def test_every_field_with_an_id_answers_null_for_a_malformed_one(
    shop: GatewayClient, name: str, bad: str
) -> None:
    data = await shop.data(f"query ($id: ID!) {{ {name}(id: $id) {{ __typename }} }}", {"id": bad})

    is_other = name == "node" and bad == encoded("Product:p1")
    assert data == {name: {"__typename": "AudioAlbum"} if is_other else None}


async def test_at_most_a_hundred_ids_are_accepted(shop: GatewayClient) -> None:
    ids = [Kind.encode_id("Product", "p1")] * 100

    assert len((await shop.data(NODES, {"ids": ids}))["nodes"]) == 100
    refused = await shop.ask(NODES, {"ids": [*ids, "x"]})

    assert refused.body["errors"][0]["extensions"] == {"code": "BAD_USER_INPUT", "argument": ["ids"]}
    assert not (refused.body.get("data") or {}).get("nodes")


async def test_an_id_of_another_kind_is_not_found(shop: GatewayClient) -> None:
    """If a mutation needs an id of one kind, an id of another kind names no object."""
    music = await id_of(shop, "music")
    given: list[tuple[str, dict[str, Any]]] = [
        ("renameCategory", {"id": Kind.encode_id("Product", "p1"), "name": "x"}),
        ("renameCategory", {"id": "x", "name": "x"}),
        ("updateProduct", {"id": music, "nonce": "x"}),
        ("createCategory", {"name": "x", "slug": "x", "parentId": Kind.encode_id("Product", "p1")}),
    ]
    for mutation, values in given:
        assert (await shop.result(mutation, values))["__typename"] == "NotFound"


async def test_reads_by_ids_are_batched_with_other_reads(shop: GatewayClient) -> None:
    ids = [Kind.encode_id("Product", sku) for sku in ("p1", "p3")]
    for order in (
        'product(sku: "p1") { id } nodes(ids: $ids) { id }',
        'nodes(ids: $ids) { id } product(sku: "p1") { id }',
    ):
        shop.commands.clear()
        await shop.data(f"query ($ids: [ID!]!) {{ {order} }}", {"ids": ids})

        assert shop.commands.names() == ["find products"], order


async def test_an_error_about_an_id_names_kinds_with_their_articles(gateway: GatewayClient) -> None:
    account = Kind.encode_id("Account", str(ObjectId()))
    operation = "mutation ($id: ID!) { deleteCategory(input: { id: $id }) { ... on NotFound { message } } }"

    data = await gateway.data(operation, {"id": account})

    assert data["deleteCategory"] == {"message": "The id is that of an account, not of a category."}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("Event", "an event"),
        ("ContentNode", "a content node"),
        ("AdZone", "an ad zone"),
        ("User", "a user"),
        ("Unit", "a unit"),
        ("Upload", "an upload"),
    ],
)
def test_a_kind_has_its_article(kind: str, words: str) -> None:
    assert one_of(kind) == words
