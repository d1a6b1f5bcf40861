"""A mutation refuses all invalid values of its input at once, each with its path, its code and its bounds.

Programs tell all other errors apart by their codes, too.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import Any, cast

import pytest
from graphql import GraphQLInterfaceType, GraphQLUnionType, get_named_type, get_nullable_type

from portico.resolvers.errors import DomainError
from portico.testing.kits import merged, mutation_text
from tests.shop.support.shop import add_input, new_cart, stock_up
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, category_input, create_category, new_key, product_input
from tests.support.invalid_inputs import Place, changed, filled, leaves
from tests.support.kits import kits

CORE = SCHEMA._schema
FIELDS = "fields { message code path minimum maximum pattern }"
SHOWN = f"... on InvalidInput {{ code path minimum maximum pattern {FIELDS} }}"
INPUTS = merged([kit.inputs for kit in kits().values()])
assert CORE.mutation_type is not None
MUTATIONS = CORE.mutation_type.fields
TYPES = {name: field.args["input"].type for name, field in MUTATIONS.items()}


def may_be_invalid(name: str) -> bool:
    """Whether the union of the mutation has `InvalidInput`, and its input has plain values, and no file."""
    union: Any = get_named_type(MUTATIONS[name].type)
    entry = get_nullable_type(TYPES[name])
    has_file = any(get_named_type(field.type).name == "Upload" for field in get_named_type(entry).fields.values())
    return "InvalidInput" in {one.name for one in union.types} and any(leaves(entry, None)) and not has_file


# What is wrong only with what is stored, and refused after the other values are checked.
OF_STORED = {"NOT_ALLOWED", "UNKNOWN"}
ONLY_OF_STORED = {"vote", "restock"}
CHECKED = [name for name in TYPES if may_be_invalid(name)]


async def call(gateway: GatewayClient, mutation: str, given: Any) -> dict[str, Any]:
    takes_key = "idempotencyKey" in get_named_type(TYPES[mutation]).fields
    keyed = {**given, "idempotencyKey": new_key()} if takes_key else given
    answer = await gateway.ask(mutation_text(CORE, mutation, SHOWN), {"input": keyed})
    assert "INTERNAL" not in answer.codes
    return (answer.body.get("data") or {}).get(mutation) or {}


async def valid_input(gateway: GatewayClient, mutation: str) -> Any:
    return (await INPUTS[mutation](gateway))[0] if mutation in INPUTS else filled(TYPES[mutation])


def path_of(place: Place) -> list[str]:
    return [str(step) for step in place]


async def checked_values(gateway: GatewayClient, mutation: str) -> tuple[Any, dict[Place, Any]]:
    """A valid input, and the places in it that are checked by themselves, each with an invalid value."""
    given = await valid_input(gateway, mutation)
    found: dict[Place, Any] = {}
    for place, wrong in leaves(TYPES[mutation], given):
        for value in wrong:
            answer = await call(gateway, mutation, changed(TYPES[mutation], given, {place: value}))
            if answer.get("__typename") == "InvalidInput":
                if answer["path"] == path_of(place) and answer["code"] not in OF_STORED:
                    found[place] = value
                    break
            elif answer.get("__typename", "").endswith("Payload"):
                # What some inputs need can be created only once. They stay valid.
                with contextlib.suppress(AssertionError, DomainError):
                    given = await valid_input(gateway, mutation)
    return given, found


@pytest.mark.sample(4)
@pytest.mark.parametrize("mutation", CHECKED)
async def test_any_two_invalid_values_are_refused_together(gateway: GatewayClient, mutation: str) -> None:
    given, wrong = await checked_values(gateway, mutation)

    assert wrong or mutation in ONLY_OF_STORED
    for both in itertools.combinations(wrong, 2):
        answer = await call(gateway, mutation, changed(TYPES[mutation], given, {one: wrong[one] for one in both}))
        assert answer.get("__typename") == "InvalidInput", both
        first, *others = answer["fields"]
        assert sorted([first["path"], *(other["path"] for other in others)]) == sorted(map(path_of, both))
        assert first == {name: answer[name] for name in first}
        for field in answer["fields"]:
            assert field["code"] != "INVALID"
            # A name in the source, or of it.
            assert not re.search(r"portico|InvalidInput|[a-z]_[a-z]", field["message"])


async def test_a_form_learns_of_all_its_invalid_fields_with_their_bounds(gateway: GatewayClient) -> None:
    given = product_input(
        title="",
        pricing={"list": {"amount": -1, "currency": "usd"}, "retail": {"amount": 1}},
        properties=[{"name": "size", "value": "L"}, {"name": "x" * 501, "value": "\0"}],
    )

    answer = await call(gateway, "createProduct", given)

    shown = {name: answer[name] for name in ("path", "code", "minimum", "maximum")}
    assert shown == {"path": ["title"], "code": "EMPTY", "minimum": None, "maximum": None}
    names = ("code", "minimum", "maximum", "pattern")
    assert {".".join(one["path"]): tuple(one[name] for name in names) for one in answer["fields"]} == {
        "title": ("EMPTY", None, None, None),
        "pricing.list.amount": ("OUT_OF_RANGE", 0, 2**53 - 1, None),
        "pricing.list.currency": ("WRONG_FORMAT", None, None, "[A-Z]{3}"),
        "properties.1.name": ("TOO_LONG", None, 500, None),
        "properties.1.value": ("FORBIDDEN_CHARACTER", None, None, None),
    }


async def test_a_bound_that_no_big_int_can_hold_is_only_in_the_message(gateway: GatewayClient) -> None:
    given = product_input(type="Book", details={"a": 2**63})

    answer = await call(gateway, "createProduct", given)

    assert [(one["path"], one["code"], one["minimum"], one["maximum"]) for one in (answer, *answer["fields"])] == [
        (["details", "a"], "OUT_OF_RANGE", None, None)
    ] * 2
    assert [one["message"] for one in answer["fields"]] == ["A whole number must fit into 64 bits."]


async def test_a_repeated_call_gets_all_invalid_fields_again(gateway: GatewayClient) -> None:
    text = mutation_text(CORE, "createCategory", SHOWN)
    variables = {"input": {"name": "", "slug": "A B", "idempotencyKey": new_key()}}

    first, again = [await gateway.data(text, variables) for _ in range(2)]

    assert [one["path"] for one in first["createCategory"]["fields"]] == [["slug"], ["name"]]
    assert again == first


async def test_at_most_a_hundred_invalid_fields_are_named(gateway: GatewayClient) -> None:
    given = product_input(properties=[{"name": "", "value": ""} for _ in range(400)])

    assert len((await call(gateway, "createProduct", given))["fields"]) == 100


async def test_each_entry_of_a_batch_names_all_its_invalid_fields(gateway: GatewayClient) -> None:
    shown = f"... on RecordedPayload {{ recorded invalid {{ {FIELDS} }} }} {SHOWN}"
    text, time = mutation_text(CORE, "recordHits", shown), "2026-03-01T12:00:00.000Z"
    wrong, right = {"site": "", "page": "\0", "at": time}, {"site": "s", "page": "/", "at": time}

    some = (await gateway.data(text, {"input": [right, wrong]}))["recordHits"]
    none = (await gateway.data(text, {"input": [wrong, wrong]}))["recordHits"]

    assert some["recorded"] == 1
    assert [one["path"] for entry in some["invalid"] for one in entry["fields"]] == [["1", "site"], ["1", "page"]]
    expected = [["0", "site"], ["0", "page"], ["1", "site"], ["1", "page"]]
    assert [one["path"] for one in none["fields"]] == expected


CODE = "... on UserError { code }"
BOUNDS = f"{CODE} ... on InvalidInput {{ path minimum maximum }}"


async def refused(
    gateway: GatewayClient, mutation: str, given: Any, key: str | None = None, shown: str = BOUNDS
) -> Any:
    text = mutation_text(CORE, mutation, shown)
    found = (await gateway.data(text, {"input": {**given, **({"idempotencyKey": key} if key else {})}}))[mutation]
    return {name: value for name, value in found.items() if name not in {"__typename", "message"}}


@pytest.mark.parametrize(
    ("wrong", "code", "has_bound"),
    [
        ({"name": ""}, "EMPTY", False),
        ({"name": "a" * 10_000}, "TOO_LONG", True),
        ({"name": "a\u0007"}, "FORBIDDEN_CHARACTER", False),
        ({"slug": "A B"}, "WRONG_FORMAT", False),
    ],
)
async def test_an_invalid_value_has_a_code_and_the_bounds_also_in_a_repeated_call(
    gateway: GatewayClient, wrong: dict[str, str], code: str, has_bound: bool
) -> None:
    given, key = {**category_input(), **wrong}, new_key()

    first = await refused(gateway, "createCategory", given, key)

    assert (first["path"], first["code"], first["minimum"]) == ([*wrong], code, None)
    assert (first["maximum"] is not None) is has_bound
    assert await refused(gateway, "createCategory", given, key) == first


async def test_a_number_beyond_its_bound_has_the_bound(gateway: GatewayClient) -> None:
    cart, sku = await new_cart(gateway), await stock_up(gateway)

    found = await refused(gateway, "addItemToCart", add_input(cart, sku, 0))
    assert found == {"path": ["quantity"], "code": "OUT_OF_RANGE", "minimum": 1, "maximum": None}


async def test_the_bound_of_a_quantity_counts_what_is_there(gateway: GatewayClient) -> None:
    plain, dear = await stock_up(gateway, units=2_000), await stock_up(gateway, price=2**52)
    cart = await new_cart(gateway, **{plain: 999})
    beyond = {"path": ["quantity"], "code": "OUT_OF_RANGE", "minimum": None}

    assert await refused(gateway, "addItemToCart", add_input(cart, plain, 2)) == {**beyond, "maximum": 1}
    assert await refused(gateway, "addItemToCart", add_input(cart, dear, 2)) == {**beyond, "maximum": 1}
    given = {"sku": plain, "quantity": 2**31 - 1, "idempotencyKey": new_key()}
    assert await refused(gateway, "restock", given) == {**beyond, "maximum": 2**31 - 1 - 2_000}


async def test_an_error_that_an_earlier_version_has_stored_has_a_code(gateway: GatewayClient) -> None:
    given, key = {**category_input(), "name": ""}, new_key()
    await refused(gateway, "createCategory", given, key)
    facts = ("code", "least", "most")
    await gateway.db["operations"].update_many({}, {"$unset": {f"outcome.error.facts.{name}": 1 for name in facts}})

    again = await refused(gateway, "createCategory", given, key)

    assert again == {"path": ["name"], "code": "INVALID", "minimum": None, "maximum": None}


def test_every_error_of_a_union_has_a_code() -> None:
    unions = [get_named_type(field.type) for field in MUTATIONS.values()]
    members = {one for union in unions if isinstance(union, GraphQLUnionType) for one in union.types}
    errors = {one for one in members if not one.name.endswith("Payload")}

    assert len(errors) > 20
    # Also what other fields answer with, and what no union has yet.
    implementing = {*CORE.get_implementations(cast("GraphQLInterfaceType", CORE.type_map["UserError"])).objects}
    assert errors <= implementing
    assert [one.name for one in implementing if str(one.fields["code"].type) != "String!"] == []
    assert [one.name for one in members - errors if one in implementing] == []


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
