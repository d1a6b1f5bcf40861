"""Dates that Python cannot represent: each is an error at its own place, and everything else is shown."""

from __future__ import annotations

import pytest
from bson import DatetimeMS
from structlog.testing import capture_logs

from tests.catalog.support.catalog import add_products, document, product
from tests.support.harness import GatewayClient

pytestmark = pytest.mark.both_drivers

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


async def fill(gateway: GatewayClient) -> list[str]:
    """Stores products, two of them with dates beyond Python's. Returns the SKUs, the newest first."""
    await add_products(gateway.db, [product(sku=f"of-{year}", issueDate=f"{year}-01-01T00:00:00Z") for year in YEARS])
    await gateway.db["products"].insert_many(
        [document(sku=f"beyond-{number}") | {"issue_date": date} for number, date in enumerate(BEYOND)]
    )
    return ["beyond-1", "of-2020", "of-2019", "beyond-0"]


async def test_a_date_that_python_cannot_represent_is_an_error_at_its_place(gateway: GatewayClient) -> None:
    expected = await fill(gateway)

    found = (await gateway.ask(ALL)).body

    nodes = found["data"]["products"]["nodes"]
    assert [node["sku"] for node in nodes] == expected
    years = [node["issueDate"] and node["issueDate"][:4] for node in nodes]
    assert years == [None, "2020", "2019", None]
    codes = {(tuple(error["path"]), error["extensions"]["code"]) for error in found["errors"]}
    assert codes == {(("products", "nodes", place, "issueDate"), "INTERNAL") for place in (0, 3)}


async def test_pages_continue_behind_such_a_date(gateway: GatewayClient) -> None:
    expected = await fill(gateway)

    shown: list[str] = []
    after = None
    while True:
        page = (await gateway.data(PAGE, {"after": after}))["products"]
        shown += [node["sku"] for node in page["nodes"]]
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break

    assert shown == expected


async def test_an_edit_keeps_such_a_date(gateway: GatewayClient) -> None:
    await fill(gateway)
    nonce = (await gateway.data('{ product(sku: "beyond-1") { id nonce } }'))["product"]
    edited = (await gateway.ask(EDIT, {"input": {**nonce, "title": "New"}})).body["data"]["updateProduct"]

    assert edited["__typename"] == "ProductPayload", edited
    stored = await gateway.db["products"].find_one({"sku": "beyond-1"})
    assert stored is not None
    assert (stored["title"], stored["issue_date"]) == ("New", BEYOND[1])


async def test_the_log_names_each_document_in_one_line(gateway: GatewayClient) -> None:
    await fill(gateway)
    with capture_logs() as log:
        await gateway.ask(ALL)

    shown = [entry for entry in log if entry["event"] == "stored value does not fit"]
    assert [entry["path"] for entry in shown] == [["products", "nodes", place, "issueDate"] for place in (0, 3)]
    assert {entry["error"] for entry in shown} == {"DateTime cannot represent DatetimeMS."}
    assert not any("exc_info" in entry for entry in log)
    if gateway.settings.executor == "compiled":
        stored = gateway.db["products"].find({"sku": {"$regex": "^beyond"}}, sort=[("sku", -1)])
        assert [entry["document"] for entry in shown] == [f"products {one['_id']!r}" async for one in stored]
