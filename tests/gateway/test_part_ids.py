"""Objects that are listed have ids, so that client stores never mix the fields of two of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from graphql import GraphQLInterfaceType, GraphQLObjectType, build_schema, get_named_type

from portico.schema.kinds import Kind
from tests.support.harness import GatewayClient

# Types of list items without an `id`, and why a store mixes nothing.
_WITHOUT_IDS = {
    "AdEvent": "An event never changes, and the list only grows at its beginning: clients read it whole.",
    "FacetCount": "A count belongs to the answer that it was worked out for.",
    "HitPoint": "The points are those of the arguments, in their order.",
    "InvalidField": "A part of the answer to one call.",
    "InvalidInput": "A part of the answer to one call.",
    "OrderItem": "The lines of an order never change.",
    "PageCount": "A row belongs to the answer that it was worked out for.",
    "TextPart": "A part belongs to the text that was typed.",
    "PriceBand": "The bands never change their places.",
    "RejectedAd": "A part of the answer to one choice.",
    "SessionStats": "A row belongs to the answer that it was worked out for.",
    "TradeLine": "The lines of a trade never change.",
}


def test_every_listed_type_has_an_id_or_a_reason() -> None:
    schema = build_schema((Path(__file__).parents[2] / "schema.graphql").read_text())
    without = set()
    for found in schema.type_map.values():
        if isinstance(found, GraphQLObjectType | GraphQLInterfaceType) and not found.name.startswith("__"):
            for field in found.fields.values():
                inner: Any = get_named_type(field.type)
                is_listed = "[" in str(field.type) and not inner.name.endswith("Edge")
                if is_listed and hasattr(inner, "fields") and "id" not in inner.fields:
                    without.add(inner.name)

    assert without == set(_WITHOUT_IDS)


@pytest.mark.parametrize("name", ["CartItem", "Exit", "Item", "PostComment", "CharacterBrief", "Property", "Nothing"])
async def test_an_id_of_a_part_is_like_that_of_no_object(gateway: GatewayClient, name: str) -> None:
    query = "query ($id: ID!) { node(id: $id) { id } nodes(ids: [$id]) { id } }"

    assert await gateway.data(query, {"id": Kind.encode_id(name, "1")}) == {"node": None, "nodes": [None]}
