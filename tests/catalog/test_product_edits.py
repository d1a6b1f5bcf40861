"""The product catalog for merchants: edits and deletions that present a nonce, and the roles that may write."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.catalog.support.cases import id_and_nonce
from tests.support.harness import GatewayClient, assert_invariants, create_category, create_product, product_input
from tests.support.roles import assert_only_for

FIELDS = """
  title description issueDate nonce categories { slug } properties { name value }
  pricing { list { amount } retail { amount } } shipping { weight dimensions { width } }
  ... on GeneralProduct { details }
"""
PRODUCT = f"query ($sku: String!) {{ product(sku: $sku) {{ {FIELDS} }} }}"


async def read(gateway: GatewayClient, product: dict[str, Any]) -> Any:
    return (await gateway.data(PRODUCT, {"sku": product["sku"]}))["product"]


async def edit(gateway: GatewayClient, product: dict[str, Any], **changes: Any) -> Any:
    return await gateway.result("updateProduct", {**id_and_nonce(product), **changes})


def conflict_with(current: dict[str, Any]) -> dict[str, Any]:
    message = "The product has changed since it was read."
    shown = {"title": current["title"], "nonce": current["nonce"]}
    return {"__typename": "ProductEditConflict", "message": message, "current": shown}


async def create_full(gateway: GatewayClient) -> tuple[dict[str, Any], dict[str, Any]]:
    """Create a product with all fields. Return it, and the fields that a read returns, without the nonce."""
    jazz = await create_category(gateway, slug="jazz")
    product = await create_product(
        gateway,
        type="Box",
        title="Old title",
        description="Old description",
        issueDate="1965-02-01T00:00:00.000Z",
        categoryIds=[jazz["id"]],
        properties=[{"name": "a", "value": "b"}],
        pricing={"list": {"amount": 10}, "retail": {"amount": 9}},
        shipping={"weight": 1.0, "dimensions": {"width": 2.0, "height": 3.0, "depth": 4.0}},
        details={"old": True},
    )
    shown = await read(gateway, product)
    return product, {name: value for name, value in shown.items() if name != "nonce"}


CHANGES: dict[str, tuple[Any, Any]] = {
    "title": (" New title ", "New title"),
    "description": (" New\ndescription ", " New\ndescription "),
    "issueDate": ("2000-01-01T02:00:00.1239+02:00", "2000-01-01T00:00:00.123Z"),
    "properties": ([{"name": "c", "value": "d"}, {"name": "a", "value": "e"}],) * 2,
    "pricing": ({"list": {"amount": 20}, "retail": {"amount": 5}},) * 2,
    "shipping": ({"weight": 7}, {"weight": 7.0, "dimensions": None}),
    "details": ({"new": {"deep": [1]}},) * 2,
}


@pytest.mark.parametrize("name", CHANGES)
async def test_an_edit_changes_only_the_given_fields(gateway: GatewayClient, name: str) -> None:
    product, before = await create_full(gateway)
    given, shown = CHANGES[name]

    result = await edit(gateway, product, **{name: given})

    assert result["__typename"] == "ProductPayload"
    after = await read(gateway, product)
    assert after == {**before, name: shown, "nonce": result["product"]["nonce"]}
    assert after["nonce"] != product["nonce"]
    await assert_invariants(gateway)


async def test_an_edit_replaces_the_categories_of_a_product(gateway: GatewayClient) -> None:
    product, before = await create_full(gateway)
    blues, soul = await create_category(gateway, slug="blues"), await create_category(gateway, slug="soul")

    result = await edit(gateway, product, categoryIds=[soul["id"], blues["id"], soul["id"]])

    assert result["product"]["categories"] == [{"slug": "soul"}, {"slug": "blues"}]
    assert await read(gateway, product) == {
        **before,
        "categories": [{"slug": "soul"}, {"slug": "blues"}],
        "nonce": result["product"]["nonce"],
    }
    await assert_invariants(gateway)


EMPTY: dict[str, Any] = {
    "description": None,
    "issueDate": None,
    "shipping": None,
    "categoryIds": [],
    "properties": [],
    "details": {},
}


@pytest.mark.parametrize("name", EMPTY)
async def test_null_clears_a_field_and_an_omitted_field_is_kept(gateway: GatewayClient, name: str) -> None:
    product, before = await create_full(gateway)

    kept = await edit(gateway, product)
    assert await read(gateway, product) == {**before, "nonce": kept["product"]["nonce"]}
    cleared = await edit(gateway, kept["product"], **{name: None})

    shown = "categories" if name == "categoryIds" else name
    assert await read(gateway, product) == {**before, shown: EMPTY[name], "nonce": cleared["product"]["nonce"]}
    await assert_invariants(gateway)


@pytest.mark.parametrize(
    ("name", "message"),
    [("title", "Title must not be empty."), ("pricing", "Pricing must not be empty.")],
)
async def test_required_fields_cannot_be_cleared(gateway: GatewayClient, name: str, message: str) -> None:
    product, before = await create_full(gateway)

    result = await edit(gateway, product, **{name: None})

    assert result == {"__typename": "InvalidInput", "message": message, "path": [name]}
    assert await read(gateway, product) == {**before, "nonce": product["nonce"]}


async def test_an_edited_product_is_found_by_its_current_values(gateway: GatewayClient) -> None:
    product = await create_product(gateway, title="Blue Train", details={"genres": ["Jazz"]})
    query = "query ($filter: ProductFilter) { products(filter: $filter) { nodes { sku } } }"

    await edit(gateway, product, title="Giant Steps", details={"genres": ["Hard Bop"], "artist": "John Coltrane"})

    for given, found in (
        ({"titleWord": "blue"}, False),
        ({"titleWord": "giant"}, True),
        ({"genres": ["jazz"]}, False),
        ({"genres": ["hard bop"]}, True),
        ({"artist": "john coltrane"}, True),
        ({"search": "coltrane"}, True),
    ):
        nodes = (await gateway.data(query, {"filter": given}))["products"]["nodes"]
        assert nodes == ([{"sku": product["sku"]}] if found else []), given


async def test_details_must_match_the_type_of_the_product(gateway: GatewayClient) -> None:
    film = await create_product(gateway, type="Film", details={"actors": ["A"]})

    refused = await edit(gateway, film, details={"artist": "B"})
    taken = await edit(gateway, film, details={"directors": ["C"]})

    assert refused == {
        "__typename": "InvalidInput",
        "message": "A product of type 'Film' has no 'artist'.",
        "path": ["details", "artist"],
    }
    assert taken["__typename"] == "ProductPayload"
    shown = await gateway.data("{ products { nodes { ... on Film { actors directors } } } }")
    assert shown["products"]["nodes"] == [{"actors": [], "directors": ["C"]}]


async def test_the_nonce_changes_with_every_edit(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    nonces = [product["nonce"]]

    for title in ("A", "A", "B", "A"):
        edited = await edit(gateway, {**product, "nonce": nonces[-1]}, title=title)
        nonces.append(edited["product"]["nonce"])
    nonces.append((await create_product(gateway))["nonce"])

    assert len(set(nonces)) == 6


async def test_an_edit_with_a_stale_nonce_conflicts_and_returns_the_current_product(gateway: GatewayClient) -> None:
    product = await create_product(gateway, title="First")
    edited = await edit(gateway, product, title="Second")

    for nonce in (product["nonce"], "", "$ne", "0" * 24):
        result = await edit(gateway, {**product, "nonce": nonce}, title="Third")
        assert result == conflict_with({**edited["product"], "title": "Second"})
    # The merchant can retry with the nonce from the conflict.
    again = await edit(gateway, {**product, "nonce": result["current"]["nonce"]}, title="Third")
    assert again["product"]["title"] == "Third"


async def test_a_conflict_takes_precedence_over_invalid_input(gateway: GatewayClient) -> None:
    product = await create_product(gateway)

    result = await edit(gateway, {**product, "nonce": "old"}, title="")

    assert result["__typename"] == "ProductEditConflict"


async def test_a_deleted_product_is_not_found_and_its_sku_is_free(gateway: GatewayClient) -> None:
    product = await create_product(gateway, sku="S")
    given = id_and_nonce(product)

    deleted = await gateway.result("deleteProduct", given)
    again = await gateway.result("deleteProduct", given)
    edited = await edit(gateway, product, title="New")

    assert deleted == {"__typename": "DeletedPayload", "deletedId": product["id"]}
    assert (
        again
        == edited
        == {"__typename": "NotFound", "message": "There is no such product.", "missingId": product["id"]}
    )
    assert await gateway.data('{ product(sku: "S") { sku } }') == {"product": None}
    successor = await create_product(gateway, sku="S")
    assert successor["nonce"] != product["nonce"]
    # A nonce of the old product is not valid for the new one.
    assert (await gateway.result("deleteProduct", given))["__typename"] == "ProductEditConflict"


async def test_a_deletion_with_a_stale_nonce_conflicts_and_returns_the_current_product(gateway: GatewayClient) -> None:
    product = await create_product(gateway, title="First")
    edited = (await edit(gateway, product, title="Second"))["product"]

    result = await gateway.result("deleteProduct", id_and_nonce(product))

    assert result == conflict_with({**edited, "title": "Second"})
    allowed = await gateway.result("deleteProduct", {"id": product["id"], "nonce": edited["nonce"]})
    assert allowed == {"__typename": "DeletedPayload", "deletedId": product["id"]}


async def test_an_invalid_category_id_is_refused_in_creations_and_edits(gateway: GatewayClient) -> None:
    known, product = await create_category(gateway), await create_product(gateway)
    unknown = Kind.encode_id("Category", ObjectId())
    messages = {
        unknown: ("There is no such category.", unknown),
        product["id"]: ("The id is that of a product, not of a category.", None),
        "jazz": ("The id is not that of a category.", None),
        "": ("The id is not that of a category.", None),
    }

    for wrong, (message, shown) in messages.items():
        ids = [known["id"], wrong]
        created = await gateway.result("createProduct", product_input(categoryIds=ids))
        edited = await edit(gateway, product, categoryIds=ids)
        assert created == edited == {"__typename": "NotFound", "message": message, "missingId": shown}

    assert await gateway.db["products"].count_documents({}) == 1
    assert (await read(gateway, product))["nonce"] == product["nonce"]
    # No mark is left that would prevent the deletion of the category.
    assert (await gateway.result("deleteCategory", {"id": known["id"]}))["__typename"] == "DeletedPayload"


@pytest.mark.parametrize("mutation", ["updateProduct", "deleteProduct"])
async def test_an_unknown_product_is_not_found(gateway: GatewayClient, mutation: str) -> None:
    category = await create_category(gateway)
    unknown = Kind.encode_id("Product", "no such")
    messages = {
        unknown: ("There is no such product.", unknown),
        category["id"]: ("The id is that of a category, not of a product.", None),
        "S": ("The id is not that of a product.", None),
        Kind.encode_id("Product", ""): ("The id is not that of a product.", None),
        Kind.encode_id("Product", "a\0b"): ("The id is not that of a product.", None),
    }

    for wrong, (message, shown) in messages.items():
        result = await gateway.result(mutation, {"id": wrong, "nonce": "any"})
        assert result == {"__typename": "NotFound", "message": message, "missingId": shown}


@pytest.mark.parametrize("mutation", ["createProduct", "updateProduct", "deleteProduct"])
async def test_only_merchants_and_admins_write_to_the_catalog(gateway: GatewayClient, mutation: str) -> None:
    product = await create_product(gateway, title="Known")
    given = product_input() if mutation == "createProduct" else id_and_nonce(product)

    await assert_only_for(gateway, "MERCHANT", mutation, given)
    assert await gateway.db["products"].count_documents({}) == 1
    assert (await read(gateway, product))["nonce"] == product["nonce"]
    await gateway.payload(mutation, given, token=gateway.token("chief", [Role.ADMIN]))
