"""Programs tell errors apart by their codes, and know the bounds that a value is beyond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from graphql import GraphQLObjectType, GraphQLUnionType, get_named_type

from portico.testing.kits import mutation_text
from tests.shop.support.shop import add_input, new_cart, stock_up
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, category_input, create_category, new_key

CODE = "... on UserError { code }"
SHOWN = f"{CODE} ... on InvalidInput {{ path minimum maximum }}"


async def refused(gateway: GatewayClient, mutation: str, given: Any, key: str | None = None, shown: str = SHOWN) -> Any:
    text = mutation_text(SCHEMA._schema, mutation, shown)
    found = (await gateway.data(text, {"input": {**given, **({"idempotencyKey": key} if key else {})}}))[mutation]
    return {name: value for name, value in found.items() if name not in {"__typename", "message"}}


INVALID: list[tuple[dict[str, Any], list[str], str, int | None, int | None]] = [
    ({"name": ""}, ["name"], "EMPTY", None, None),
    ({"name": "a" * 10_000}, ["name"], "TOO_LONG", None, 500),
    ({"name": "a\u0007"}, ["name"], "FORBIDDEN_CHARACTER", None, None),
    ({"slug": "A B"}, ["slug"], "WRONG_FORMAT", None, None),
]


@pytest.mark.parametrize(("wrong", "path", "code", "least", "most"), INVALID)
async def test_an_invalid_value_has_a_code_and_the_bounds_also_in_a_repeated_call(
    gateway: GatewayClient, wrong: dict[str, Any], path: list[str], code: str, least: int | None, most: int | None
) -> None:
    given, key = {**category_input(), **wrong}, new_key()

    first = await refused(gateway, "createCategory", given, key)

    assert (first["path"], first["code"], first["minimum"]) == (path, code, least)
    assert (first["maximum"] is None) is (most is None)
    assert await refused(gateway, "createCategory", given, key) == first


async def test_a_number_beyond_its_bound_has_the_bound(gateway: GatewayClient) -> None:
    cart, sku = await new_cart(gateway), await stock_up(gateway)

    assert await refused(gateway, "addItemToCart", add_input(cart, sku, 0)) == {
        "path": ["quantity"],
        "code": "OUT_OF_RANGE",
        "minimum": 1,
        "maximum": None,
    }


async def test_an_error_that_an_earlier_version_has_stored_has_a_code(gateway: GatewayClient) -> None:
    given, key = {**category_input(), "name": ""}, new_key()
    await refused(gateway, "createCategory", given, key)
    facts = ("code", "least", "most")
    await gateway.db["operations"].update_many({}, {"$unset": {f"outcome.error.facts.{name}": 1 for name in facts}})

    again = await refused(gateway, "createCategory", given, key)

    assert again == {"path": ["name"], "code": "INVALID", "minimum": None, "maximum": None}


def test_every_error_of_a_union_has_a_code() -> None:
    schema = SCHEMA._schema
    assert schema.mutation_type is not None
    unions = [get_named_type(field.type) for field in schema.mutation_type.fields.values()]
    members = {one for union in unions if isinstance(union, GraphQLUnionType) for one in union.types}
    errors = {one for one in members if not one.name.endswith("Payload")}

    assert len(errors) > 20
    # Also what other fields answer with, and what no union has yet.
    errors |= {one for one in schema.type_map.values() if "UserError" in {base.name for base in bases_of(one)}}
    assert [one.name for one in errors if str(codes_of(one)) != "String!"] == []
    payloads = members - errors
    assert [one.name for one in payloads if "UserError" in {base.name for base in bases_of(one)}] == []


def bases_of(one: Any) -> Sequence[Any]:
    return one.interfaces if isinstance(one, GraphQLObjectType) else ()


def codes_of(one: Any) -> Any:
    """The type of the field `code`, if the type implements `UserError`."""
    is_error = "UserError" in {base.name for base in bases_of(one)}
    return one.fields["code"].type if is_error and "code" in one.fields else None


async def test_every_other_error_has_the_name_of_its_type_as_code(gateway: GatewayClient) -> None:
    made = await create_category(gateway)

    taken = await refused(gateway, "createCategory", category_input(slug=made["slug"]), shown=CODE)
    missing = await refused(gateway, "deleteCategory", {"id": "x"}, shown=CODE)
    cycle = await refused(gateway, "moveCategory", {"id": made["id"], "newParentId": made["id"]}, shown=CODE)

    assert [one["code"] for one in (taken, missing, cycle)] == ["SLUG_TAKEN", "NOT_FOUND", "CATEGORY_CYCLE"]


async def test_entries_of_a_batch_have_codes(gateway: GatewayClient) -> None:
    text = """mutation ($input: [LogEventInput!]!) { logEvents(input: $input) {
      __typename ... on UserError { message } ... on RecordedPayload { invalid { path code minimum maximum } } } }"""
    now = f"{gateway.state.clock.now().isoformat(timespec='milliseconds')}Z"
    entries = [{"host": "h", "time": now, "path": "/", "status": status} for status in (1, 200)]

    data = await gateway.data(text, {"input": entries})

    assert data["logEvents"] == {
        "__typename": "RecordedPayload",
        "invalid": [{"path": ["0", "status"], "code": "OUT_OF_RANGE", "minimum": 100, "maximum": 999}],
    }
