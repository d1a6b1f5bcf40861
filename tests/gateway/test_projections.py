"""Projections: MongoDB returns only the selected fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import strawberry
from graphql import FieldNode, GraphQLObjectType, OperationDefinitionNode, parse

from portico.schema.fields import computed, reads, stored
from portico.schema.kinds import Kind
from portico.schema.selections import Selection
from tests.catalog.support.catalog import add_categories, add_products, album, film, pricing, product
from tests.support.harness import GatewayClient

# Fields that every read includes: the key, the type, and the version of the schema.
PRODUCT = {"sku", "type", "schema_version"}
LISTED = {"type", "schema_version", "issue_date"}


@pytest.fixture(scope="module")
async def shop(shared: GatewayClient) -> GatewayClient:
    await add_categories(
        shared.db,
        [
            {"slug": "music", "name": "Music"},
            {"slug": "jazz", "name": "Jazz", "parent": "music"},
            {"slug": "films", "name": "Films"},
        ],
    )
    await add_products(
        shared.db,
        [
            album(
                sku="album",
                title="Blue Train",
                description="A record.",
                artist="John Coltrane",
                genres=["Jazz"],
                categories=["jazz"],
                pricing=pricing(1200, 1100),
                shipping={"dimensions": {"width": 1, "height": 2, "depth": 3}},
                properties=[{"name": "Label", "value": "Blue Note"}],
            ),
            film(sku="film", title="The Matrix", actors=["Keanu Reeves"], shipping={"weight": 6}),
            product(sku="drive", details={"rpm": 7200}),
        ],
    )
    return shared


async def projections(
    gateway: GatewayClient, query: str, variables: Mapping[str, Any] | None = None
) -> list[tuple[str, set[str]]]:
    """The collection and the projection of each command that the query sends."""
    gateway.commands.clear()
    await gateway.data(query, variables)
    return [(str(next(iter(command.values()))), _projection(command)) for command in gateway.commands.sent]


def _projection(command: Mapping[str, Any]) -> set[str]:
    if "pipeline" not in command:
        return set(command.get("projection", {"*": 1}))
    return {path for stage in command["pipeline"] for path in stage.get("$project", ())}


@pytest.mark.parametrize(
    ("selection", "paths"),
    [
        ("title", {"title"}),
        ("one: title other: title", {"title"}),
        ("__typename", set()),
        ("id", set()),
        ("id sku nonce", {"nonce"}),
        ("issueDate", {"issue_date"}),
        ("pricing { retail { amount } }", {"pricing.retail", "pricing.currency"}),
        ("pricing { pctSavings }", {"pricing.pct_savings"}),
        (
            "pricing { pctSavings } ... { pricing { list { currency } } }",
            {"pricing.pct_savings", "pricing.list", "pricing.currency"},
        ),
        ("pricing { __typename }", {"pricing"}),
        ("pricing { __typename pctSavings }", {"pricing.pct_savings"}),
        ("shipping { weight dimensions { width } }", {"shipping.weight", "shipping.dimensions.width"}),
        ("shipping { dimensions { __typename } }", {"shipping.dimensions"}),
        ("properties { value }", {"properties.value"}),
        (
            "... on Film { actors } ... on AudioAlbum { artist tracks }",
            {"details.actors", "details.artist", "details.tracks"},
        ),
        ("... on Film { genres } ... on AudioAlbum { genres }", {"details.genres"}),
        ("... on GeneralProduct { details } ... on Film { actors }", {"details"}),
        ("... on GeneralProduct { type }", set()),
        ("... on Node { id ... on Product { title ... on Film { aspectRatio } } }", {"title", "details.aspect_ratio"}),
        ("...Named", {"title", "description", "details.writers"}),
        ("...Named ...Named description", {"title", "description", "details.writers"}),
        ("title @skip(if: true) asin", {"asin"}),
        ("title @include(if: false) asin @include(if: true)", {"asin"}),
        ("title @include(if: true) @skip(if: true) asin @skip(if: false)", {"asin"}),
        (
            "... @include(if: false) { title } ... on Film @skip(if: true) { actors } ...Named @skip(if: true) asin",
            {"asin"},
        ),
        ("pricing { pctSavings @skip(if: true) list { amount } }", {"pricing.list", "pricing.currency"}),
        ("pricing { pctSavings @skip(if: true) }", {"pricing"}),
    ],
)
async def test_a_product_is_fetched_with_the_selected_fields(
    shop: GatewayClient, selection: str, paths: set[str]
) -> None:
    named = """
    fragment Named on Product { title ...More }
    fragment More on Node { ... on Product { description } ... on Film { writers } }
    """
    text = f'{{ product(sku: "album") {{ {selection} }} }}' + (named if "...Named" in selection else "")

    assert await projections(shop, text) == [("products", PRODUCT | paths)]


async def test_the_stock_of_a_product_is_fetched_by_its_sku(shop: GatewayClient) -> None:
    text = '{ product(sku: "album") { stock { available } } }'

    assert await projections(shop, text) == [
        ("products", PRODUCT),
        ("stock", {"available", "reserved", "sold", "under_way"}),
    ]


async def test_related_documents_are_fetched_with_the_selected_fields(shop: GatewayClient) -> None:
    text = """
    {
      product(sku: "album") {
        categories { slug breadcrumbs { name } }
        ... on AudioAlbum { categories { parent { id } } }
      }
    }
    """

    assert await projections(shop, text) == [
        ("products", {*PRODUCT, "category_ids"}),
        ("categories", {"slug", "ancestors.name", "parent"}),
        ("categories", {"_id"}),
    ]


@pytest.mark.parametrize(
    ("selection", "paths"),
    [
        ("nodes { title } edges { node { asin } }", {"title", "asin"}),
        ("nodes { title } more: nodes { asin } ... on ProductConnection { edges { cursor } }", {"title", "asin"}),
        ("edges { cursor node { ... on Film { actors } } }", {"details.actors"}),
        ("edges { cursor }", set()),
        ("pageInfo { endCursor hasNextPage }", set()),
        ("nodes { __typename }", set()),
        ("nodes { issueDate }", set()),
        ("...Rows nodes @include(if: false) { description }", {"title"}),
        ("nodes { id }", {"sku"}),
    ],
)
async def test_the_rows_of_a_page_are_fetched_with_the_selected_fields(
    shop: GatewayClient, selection: str, paths: set[str]
) -> None:
    named = "fragment Rows on ProductConnection { edges { node { title } } }" if "...Rows" in selection else ""

    assert await projections(shop, f"{{ products {{ {selection} }} }}{named}") == [("products", LISTED | paths)]


async def test_a_page_is_fetched_with_its_sort_fields(shop: GatewayClient) -> None:
    async def sorted_by(sort: str, selection: str) -> set[str]:
        text = f"{{ products(sort: {sort}) {{ nodes {{ {selection} }} }} }}"
        ((_, paths),) = await projections(shop, text)
        return paths - {"type", "schema_version"}

    assert await sorted_by("PRICE_ASC", "title") == {"title", "pricing.retail"}
    assert await sorted_by("PRICE_ASC", "pricing { retail { amount } }") == {"pricing.retail", "pricing.currency"}
    assert await sorted_by("PRICE_ASC", "pricing { __typename }") == {"pricing"}
    assert await sorted_by("DISCOUNT_DESC", "pricing { list { amount } }") == {
        "pricing.list",
        "pricing.currency",
        "pricing.pct_savings",
    }
    assert await sorted_by("TITLE_ASC", "title") == {"title"}


async def test_pages_of_many_lists_are_fetched_with_the_selected_fields(shop: GatewayClient) -> None:
    text = "{ categories { nodes { children { edges { node { slug } } } } } }"

    assert await projections(shop, text) == [
        ("categories", {"_id", "name", "schema_version"}),
        ("categories", {"slug", "name", "schema_version"}),
    ]


async def test_nodes_are_fetched_with_the_selected_fields_of_their_kind(shop: GatewayClient) -> None:
    music = (await shop.data('{ category(slug: "music") { id } }'))["category"]["id"]
    text = """
    query ($ids: [ID!]!) {
      nodes(ids: $ids) { id ... on Category { slug } ... on Film { title } ... on Product { pricing { pctSavings } } }
    }
    """

    found = await projections(
        shop, text, {"ids": [music, Kind.encode_id("Product", "film"), Kind.encode_id("Product", "album")]}
    )

    assert dict(found) == {"categories": {"_id", "slug"}, "products": {*PRODUCT, "title", "pricing.pct_savings"}}


async def test_a_cached_operation_applies_the_directives_of_each_request(shop: GatewayClient) -> None:
    text = """
    query ($title: Boolean!, $rest: Boolean = true) {
      product(sku: "album") {
        sku
        title @include(if: $title)
        ... @skip(if: $rest) { description ... on AudioAlbum { artist } }
      }
    }
    """
    answers = {
        (False, True): {"sku": "album"},
        (True, True): {"sku": "album", "title": "Blue Train"},
        (True, False): {"sku": "album", "title": "Blue Train", "description": "A record.", "artist": "John Coltrane"},
        (False, False): {"sku": "album", "description": "A record.", "artist": "John Coltrane"},
    }
    paths = {"title": "title", "description": "description", "artist": "details.artist"}
    for (title, rest), expected in [*answers.items(), *answers.items()]:
        variables = {"title": title} | ({} if rest else {"rest": False})

        ((_, projection),) = await projections(shop, text, variables)

        assert projection == PRODUCT | {paths[name] for name in expected if name in paths}
        assert await shop.data(text, variables) == {"product": expected}


async def test_an_object_is_returned_even_if_only_its_typename_is_selected(shop: GatewayClient) -> None:
    text = """
    query ($sku: String!) {
      product(sku: $sku) {
        pricing { __typename }
        shipping { __typename dimensions { __typename } }
        properties { __typename }
        stock { __typename }
        categories { __typename breadcrumbs { __typename } }
      }
    }
    """

    assert (await shop.data(text, {"sku": "album"}))["product"] == {
        "pricing": {"__typename": "Pricing"},
        "shipping": {"__typename": "Shipping", "dimensions": {"__typename": "Dimensions"}},
        "properties": [{"__typename": "Property"}],
        "stock": {"__typename": "Stock"},
        "categories": [{"__typename": "Category", "breadcrumbs": [{"__typename": "Breadcrumb"}]}],
    }
    assert (await shop.data(text, {"sku": "film"}))["product"]["shipping"] == {
        "__typename": "Shipping",
        "dimensions": None,
    }
    assert (await shop.data(text, {"sku": "drive"}))["product"]["shipping"] is None


@strawberry.type
class Part:
    """A part of a thing."""

    size: int = stored()
    label: str = computed(lambda part: part["name"], "name")


@strawberry.type
class Thing:
    """An object with a field that does not declare what it reads."""

    name: str = stored("details.name")
    part: Part = stored()

    @reads("count", "unit")
    @staticmethod
    def amount(root: strawberry.Parent[Any]) -> str:
        return f"{root['count']} {root['unit']}"

    @strawberry.field
    @staticmethod
    def loud(root: strawberry.Parent[Any]) -> str:
        return str(root["anything"])


@strawberry.type
class Things:
    thing: Thing


@pytest.mark.parametrize(
    ("selection", "paths"),
    [
        ("name", {"details.name"}),
        ("part { size label }", {"part.size", "part.name"}),
        ("amount", {"count", "unit"}),
        ("loud", None),
        ("name loud part { size }", None),
        ("name loud @skip(if: true)", {"details.name"}),
        ("__typename", {"_id"}),
    ],
)
def test_a_field_that_does_not_declare_what_it_reads_fetches_the_whole_document(
    selection: str, paths: set[str] | None
) -> None:
    schema = strawberry.Schema(query=Things)._schema
    operation = parse(f"{{ thing {{ {selection} }} }}").definitions[0]
    assert isinstance(operation, OperationDefinitionNode)
    (field,) = operation.selection_set.selections
    assert isinstance(field, FieldNode)
    assert field.selection_set is not None
    thing = schema.type_map["Thing"]
    assert isinstance(thing, GraphQLObjectType)

    projection = Selection(schema, {}, {}, [field.selection_set]).projection([thing])

    assert (None if projection is None else set(projection)) == paths


async def test_a_relation_under_two_aliases_is_read_once_with_the_fields_of_both(shop: GatewayClient) -> None:
    selection = "... on Film { categories { slug } c: categories { name } } categories { slug } c: categories { name }"

    sent = await projections(shop, f"{{ products {{ nodes {{ {selection} }} }} }}")

    # graphql-core resolves one field at a time.
    reads = 2 if shop.settings.executor == "reference" else 1
    assert [collection for collection, _ in sent] == ["products", *["categories"] * reads]
    assert reads == 2 or {"name", "slug"} <= sent[1][1]
    data = await shop.data('{ product(sku: "album") { c: categories { name } categories { slug name: __typename } } }')
    assert data["product"] == {"c": [{"name": "Jazz"}], "categories": [{"slug": "jazz", "name": "Category"}]}
