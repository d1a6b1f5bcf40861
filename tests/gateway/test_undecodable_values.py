"""Dates that Python cannot represent, and text that is not valid UTF-8: each is an error at its own place."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import DatetimeMS, ObjectId
from bson.raw_bson import RawBSONDocument
from structlog.testing import capture_logs

from portico.resolvers.documents import Document
from portico.resolvers.undecodable import bytes_of, is_undecodable, sendable, text_of
from tests.catalog.support.catalog import add_products, document, product
from tests.shop.support.shop import new_cart, stock_up
from tests.support.harness import GatewayClient
from tests.support.paging import pages_of, rows_of

pytestmark = pytest.mark.both_drivers

# Dates

# In the year -29719 and in the year 33658.
BEYOND = [DatetimeMS(-(10**15)), DatetimeMS(10**15)]
YEARS = (2019, 2020)
EDIT = "mutation ($input: UpdateProductInput!) { updateProduct(input: $input) { __typename } }"
ALL = "{ products(sort: NEWEST) { nodes { sku issueDate } } }"
PAGE = """
query ($after: String) {
  products(first: 1, sort: NEWEST, after: $after) { nodes { sku } pageInfo { endCursor hasNextPage } }
}
"""


async def fill_dates(gateway: GatewayClient) -> list[str]:
    """Stores products, two of them with dates beyond Python's. Returns the SKUs, the newest first."""
    await add_products(gateway.db, [product(sku=f"of-{year}", issueDate=f"{year}-01-01T00:00:00Z") for year in YEARS])
    await gateway.db["products"].insert_many(
        [document(sku=f"beyond-{number}") | {"issue_date": date} for number, date in enumerate(BEYOND)]
    )
    return ["beyond-1", "of-2020", "of-2019", "beyond-0"]


async def test_a_date_that_python_cannot_represent_is_an_error_at_its_place(gateway: GatewayClient) -> None:
    expected = await fill_dates(gateway)

    found = (await gateway.ask(ALL)).body

    nodes = found["data"]["products"]["nodes"]
    assert [node["sku"] for node in nodes] == expected
    years = [node["issueDate"] and node["issueDate"][:4] for node in nodes]
    assert years == [None, "2020", "2019", None]
    codes = {(tuple(error["path"]), error["extensions"]["code"]) for error in found["errors"]}
    assert codes == {(("products", "nodes", place, "issueDate"), "INTERNAL") for place in (0, 3)}


async def test_pages_continue_behind_such_a_date(gateway: GatewayClient) -> None:
    expected = await fill_dates(gateway)

    assert [node["sku"] for node in await rows_of(gateway, PAGE, "products")] == expected


async def test_an_edit_keeps_such_a_date(gateway: GatewayClient) -> None:
    await fill_dates(gateway)
    nonce = (await gateway.data('{ product(sku: "beyond-1") { id nonce } }'))["product"]
    edited = (await gateway.ask(EDIT, {"input": {**nonce, "title": "New"}})).body["data"]["updateProduct"]

    assert edited["__typename"] == "ProductPayload", edited
    stored = await gateway.stored("products", {"sku": "beyond-1"})
    assert (stored["title"], stored["issue_date"]) == ("New", BEYOND[1])


async def test_the_log_names_each_document_with_such_a_date_in_one_line(gateway: GatewayClient) -> None:
    await fill_dates(gateway)
    with capture_logs() as log:
        await gateway.ask(ALL)

    shown = [entry for entry in log if entry["event"] == "stored value does not fit"]
    assert [entry["path"] for entry in shown] == [["products", "nodes", place, "issueDate"] for place in (0, 3)]
    assert {entry["error"] for entry in shown} == {"DateTime cannot represent DatetimeMS."}
    assert not any("exc_info" in entry for entry in log)
    if gateway.settings.executor == "compiled":
        stored = gateway.db["products"].find({"sku": {"$regex": "^beyond"}}, sort=[("sku", -1)])
        assert [entry["document"] for entry in shown] == [f"products {one['_id']!r}" async for one in stored]


# Text

# Both end within a character, and sort between `m` and `z`.
DAMAGED = [b"nn\xc3", b"nn\xe2"]
CHILDREN = """
query ($after: String) {
  category(slug: "top") {
    children(first: 1, after: $after) {
      nodes { slug }
      pageInfo { endCursor hasNextPage hasPreviousPage }
    }
  }
}
"""


def with_bytes(stored: dict[str, Any], text: str, damaged: bytes) -> RawBSONDocument:
    """Returns the document with these bytes in the place of a text of equal length."""
    encoded = bson.encode(stored)
    assert encoded.count(text.encode()) >= 1
    assert len(text.encode()) == len(damaged)
    return RawBSONDocument(encoded.replace(text.encode(), damaged))


def category(slug: str, name: str, parent: Document | None = None) -> Document:
    ancestors = [] if parent is None else [{name: parent[name] for name in ("_id", "slug", "name")}]
    return {"_id": ObjectId(), "slug": slug, "name": name, "parent": parent and parent["_id"], "ancestors": ancestors}


async def damaged(gateway: GatewayClient, sku: str, **fields: Any) -> None:
    """Stores a product in whose fields the text `###` is damaged."""
    await gateway.db["products"].insert_one(with_bytes(document(sku=sku) | fields, "###", DAMAGED[0]))


async def fill_texts(gateway: GatewayClient) -> None:
    """Stores a sound product, and one with a damaged number of Amazon's."""
    await gateway.db["products"].insert_one(document(sku="sound"))
    await damaged(gateway, "damaged", asin="###")


async def test_text_that_is_not_valid_utf_8_is_an_error_at_its_place(gateway: GatewayClient) -> None:
    await fill_texts(gateway)

    found = (await gateway.ask("{ products { nodes { sku title asin } } }")).body

    nodes = found["data"]["products"]["nodes"]
    assert {node["sku"] for node in nodes} == {"damaged", "sound"}
    assert {(node["title"] is None, node["asin"]) for node in nodes} == {(False, None)}
    place = [node["sku"] for node in nodes].index("damaged")
    (error,) = found["errors"]
    assert (error["path"], error["extensions"]["code"]) == (["products", "nodes", place, "asin"], "INTERNAL")


async def test_such_text_in_free_details_is_an_error_of_these(gateway: GatewayClient) -> None:
    await damaged(gateway, "d", details={"own": [{"k": "###"}]})

    found = (await gateway.ask('{ product(sku: "d") { sku ... on GeneralProduct { details } } }')).body

    assert found["data"] == {"product": None}
    assert [error["path"] for error in found["errors"]] == [["product", "details"]]


async def test_pages_continue_behind_such_a_text(gateway: GatewayClient) -> None:
    top = category("top", "Top")
    whole = [top, category("a", "mm", top), category("z", "zz", top)]
    await gateway.db["categories"].insert_many(whole)
    for slug, name in zip(("d0", "d1", "d2"), (*DAMAGED, DAMAGED[1]), strict=True):
        await gateway.db["categories"].insert_one(with_bytes(category(slug, "###", top), "###", name))

    pages = [page async for page in pages_of(gateway, CHILDREN, "category", "children")]

    assert [page["pageInfo"]["hasPreviousPage"] for page in pages] == [False, *[True] * (len(pages) - 1)]
    assert [node["slug"] for page in pages for node in page["nodes"]] == ["a", "d0", "d1", "d2", "z"]


async def test_a_related_object_with_such_a_text_is_an_error_of_its_own(gateway: GatewayClient) -> None:
    sound, other = category("sound", "Sound"), category("damaged", "###")
    await gateway.db["categories"].insert_one(sound)
    await gateway.db["categories"].insert_one(with_bytes(other, "###", DAMAGED[0]))
    ids = [sound["_id"], other["_id"]]
    await gateway.db["products"].insert_one(document(sku="d") | {"category_ids": ids})
    await gateway.db["products"].insert_one(document(sku="e") | {"category_ids": ids[:1]})

    found = (await gateway.ask('{ product(sku: "d") { categories { slug } } }')).body
    assert found == {"data": {"product": {"categories": [{"slug": "sound"}, {"slug": "damaged"}]}}}

    pair = 'd: product(sku: "d") { categories { name } } e: product(sku: "e") { categories { name } }'
    found = (await gateway.ask("{ " + pair + " }")).body
    assert found["data"] == {"d": None, "e": {"categories": [{"name": "Sound"}]}}
    assert [error["path"] for error in found["errors"]] == [["d", "categories", 1, "name"]]


async def test_a_key_that_is_such_a_text_is_an_error_of_its_own(gateway: GatewayClient) -> None:
    skus = [await stock_up(gateway, sku) for sku in ("one", "two")]
    cart = await new_cart(gateway, **dict.fromkeys(skus, 1))
    await gateway.db["carts"].update_one({}, {"$set": sendable({"items.0.sku": text_of(DAMAGED[0])})})

    found = (await gateway.ask("query ($id: ID!) { cart(id: $id) { items { product { sku } } } }", {"id": cart})).body

    assert found["data"] == {"cart": {"items": [{"product": None}, {"product": {"sku": "two"}}]}}
    assert [error["path"] for error in found["errors"]] == [["cart", "items", 0, "product"]]


async def test_figures_that_requests_share_show_the_error_each_time(gateway: GatewayClient) -> None:
    await damaged(gateway, "d", type="###")

    for _ in range(2):
        found = (await gateway.ask("{ products { facets { types { value } } } }")).body
        assert [error["extensions"]["code"] for error in found["errors"]] == ["INTERNAL"]
        assert found["errors"][0]["path"][-2:] == [0, "value"]


async def test_the_log_names_each_document_with_such_a_text_in_one_line(gateway: GatewayClient) -> None:
    await fill_texts(gateway)
    with capture_logs() as log:
        await gateway.ask("{ products { nodes { sku asin } } }")

    (entry,) = (entry for entry in log if entry["event"] == "stored value does not fit")
    assert entry["error"] == "String cannot represent text that is not valid UTF-8."
    assert not any("exc_info" in one for one in log)
    if gateway.settings.executor == "compiled":
        one = await gateway.stored("products", {"sku": "damaged"}, projection={"sku": 1})
        assert entry["document"] == f"products {one['_id']!r}"


def test_the_bytes_of_such_a_text_are_sent_unchanged() -> None:
    text = text_of(b"a\xff\xc3")
    assert bytes_of(text) == b"a\xff\xc3"
    condition = {"n": 1, "$and": [{"title": {"$gt": text}}, {"é": "é"}], "title": text}

    sent = sendable(condition)

    assert is_undecodable(condition)
    assert isinstance(sent, RawBSONDocument)
    options: bson.CodecOptions[Document] = bson.CodecOptions(unicode_decode_error_handler="surrogateescape")
    assert bson.decode(sent.raw, options) == condition
    assert sendable({"title": "é"}) == {"title": "é"}
