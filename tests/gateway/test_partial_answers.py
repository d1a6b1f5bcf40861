"""A field that fails or is refused leaves the rest of the page as it is."""

from __future__ import annotations

import pytest
from graphql import GraphQLNonNull, GraphQLObjectType

from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, create_product

# No read can fail.
_ALWAYS = {"Viewer.roles", "Viewer.subject"}


@pytest.mark.parametrize("name", ["Query", "Viewer"])
def test_root_fields_and_those_of_the_viewer_are_nullable(name: str) -> None:
    found = SCHEMA._schema.type_map[name]
    assert isinstance(found, GraphQLObjectType)

    required = {f"{name}.{one}" for one, field in found.fields.items() if isinstance(field.type, GraphQLNonNull)}

    assert required <= _ALWAYS


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        ('refused: chooseAds(siteId: "s", zoneId: "z", limit: 1000) { ads { id } }', "BAD_USER_INPUT"),
        ("refused: products(first: 1000) { nodes { id } }", "BAD_USER_INPUT"),
        ('refused: products(after: "x") { nodes { id } }', "BAD_USER_INPUT"),
        ("refused: characters { nodes { id } }", "FORBIDDEN"),
        ('refused: logEvents(filter: { from: "2020-01-01T00:00:00Z" }) { nodes { id } }', "FORBIDDEN"),
    ],
)
async def test_a_refused_root_field_leaves_the_others(gateway: GatewayClient, refused: str, code: str) -> None:
    made = await create_product(gateway)

    answer = await gateway.ask(f"{{ products {{ nodes {{ sku }} }} {refused} }}", token=gateway.token("a", []))

    assert answer.body["data"] == {"products": {"nodes": [{"sku": made["sku"]}]}, "refused": None}
    assert answer.codes == [code]


async def test_a_refused_list_leaves_the_viewer(gateway: GatewayClient) -> None:
    query = '{ viewer { subject newsFeed(month: "x") { nodes { id } } orders(first: 0) { nodes { id } } } }'

    answer = await gateway.ask(query, token=gateway.token("a", []))

    assert answer.body["data"] == {"viewer": {"subject": "a", "newsFeed": None, "orders": None}}
    assert [error["path"] for error in answer.body["errors"]] == [["viewer", "newsFeed"], ["viewer", "orders"]]
