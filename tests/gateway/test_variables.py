"""The variables that a plan coerces are those of graphql-core."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import GraphQLInputObjectType, OperationDefinitionNode, build_schema, parse
from graphql.execution.values import VariableValues, get_variable_values

from portico.gateway.operations.plans.variables import Variables

SCHEMA = build_schema("""
  enum Colour { RED BLUE }
  input Size { width: Int!, height: Int = 3, unit: String }
  input Choice @oneOf { size: Size, name: String }
  input Wanted { name: String!, sizes: [Size!]! = [], tags: [String], choice: Choice, colour: Colour = RED }
  input Filter { not: Filter, name: String }
  input Checked { name: String, count: Int }
  type Query { found(wanted: Wanted, filter: Filter, checked: Checked, count: Int, ids: [ID!]): Int }
""")
SIZE = {"width": 1, "height": None, "unit": "cm"}


def one_of(values: dict[str, Any]) -> dict[str, Any]:
    """Check a value as strawberry does for an input with exactly one field."""
    if len(values) != 1:
        raise ValueError("exactly one")
    return {"made": values}


CHECKED = SCHEMA.type_map["Checked"]
assert isinstance(CHECKED, GraphQLInputObjectType)
CHECKED.out_type = one_of  # type: ignore[method-assign, assignment]


def variables_of(head: str, given: dict[str, Any]) -> tuple[VariableValues | None, Any]:
    """Return the variables that the plan coerces, and those of graphql-core or its errors."""
    definition = parse(f"query ({head}) {{ __typename }}").definitions[0]
    assert isinstance(definition, OperationDefinitionNode)
    definitions = tuple(definition.variable_definitions or ())
    return Variables(SCHEMA, definitions).of(given), get_variable_values(SCHEMA, definitions, given)


@pytest.mark.parametrize(
    ("head", "given"),
    [
        ("$wanted: Wanted!", {"wanted": {"name": "a"}}),
        ("$wanted: Wanted!", {"wanted": {"tags": ["x", None], "name": "a", "sizes": [SIZE, {"width": 2}]}}),
        ("$wanted: Wanted", {"wanted": {"name": "a", "tags": None, "choice": {"name": "b"}, "colour": "BLUE"}}),
        ("$wanted: Wanted", {"wanted": {"name": "a", "choice": {"size": SIZE}, "colour": None}}),
        ("$wanted: Wanted", {"wanted": None}),
        ("$checked: Checked", {"checked": {"name": "a"}}),
        ("$wanted: Wanted", {}),
        ("$wanted: Wanted, $count: Int, $ids: [ID!]", {"count": 3, "ids": ["a", 4], "unused": 1}),
        ("$count: Int = 5", {"count": 3}),
        ("$count: Int = 5", {"count": None}),
        ("$count: Int", {"count": 3.0}),
    ],
)
def test_valid_variables_are_coerced_as_graphql_core_does(head: str, given: dict[str, Any]) -> None:
    planned, expected = variables_of(head, given)

    assert planned is not None
    # The order of the fields is that of the type, too.
    assert repr(planned.coerced) == repr(expected.coerced)
    assert [(name, source.signature.name, source.value) for name, source in planned.sources.items()] == [
        (name, source.signature.name, source.value) for name, source in expected.sources.items()
    ]


@pytest.mark.parametrize(
    ("head", "given"),
    [
        ("$count: Int!", {}),
        ("$count: Int!", {"count": None}),
        ("$count: Int", {"count": "3"}),
        ("$count: Int", {"count": 2**40}),
        ("$ids: [ID!]", {"ids": [None]}),
        ("$wanted: Wanted!", {"wanted": "a"}),
        ("$wanted: Wanted!", {"wanted": {}}),
        ("$wanted: Wanted!", {"wanted": {"name": None}}),
        ("$wanted: Wanted!", {"wanted": {"name": "a", "other": 1}}),
        ("$wanted: Wanted!", {"wanted": {"name": "a", "sizes": [{}]}}),
        ("$wanted: Wanted!", {"wanted": {"name": "a", "sizes": [None]}}),
        ("$wanted: Wanted!", {"wanted": {"name": "a", "colour": "GREEN"}}),
        ("$wanted: Wanted!", {"wanted": {"name": "a", "choice": {}}}),
        ("$wanted: Wanted!", {"wanted": {"name": "a", "choice": {"name": None}}}),
        ("$wanted: Wanted!", {"wanted": {"name": "a", "choice": {"name": "b", "size": SIZE}}}),
        ("$wanted: Wanted!", {"wanted": {"name": "a", "choice": {"name": "b", "size": None}}}),
    ],
)
def test_graphql_core_reports_what_is_wrong_with_variables(head: str, given: dict[str, Any]) -> None:
    planned, expected = variables_of(head, given)

    assert isinstance(expected, list)
    assert planned is None


@pytest.mark.parametrize(
    ("head", "given"),
    [("$ids: [ID!]", {"ids": "a"}), ("$count: Int = 5", {}), ("$filter: Filter", {"filter": {"not": {"name": "a"}}})],
)
def test_graphql_core_coerces_what_is_rare(head: str, given: dict[str, Any]) -> None:
    planned, expected = variables_of(head, given)

    assert isinstance(expected, VariableValues)
    assert planned is None


def test_graphql_core_reports_what_a_type_refuses_when_it_makes_its_value() -> None:
    definition = parse("query ($checked: Checked) { __typename }").definitions[0]
    assert isinstance(definition, OperationDefinitionNode)
    definitions = tuple(definition.variable_definitions or ())

    assert Variables(SCHEMA, definitions).of({"checked": {"name": "a", "count": 1}}) is None
