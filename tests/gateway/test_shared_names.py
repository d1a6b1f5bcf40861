"""One operation can select every field of all types of an interface or a union: fields of one name have one type."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from graphql import (
    GraphQLObjectType,
    OverlappingFieldsCanBeMergedRule,
    get_named_type,
    is_abstract_type,
    is_composite_type,
    is_required_argument,
    parse,
    validate,
)

from tests.support.domains import SCHEMA

PAGE = Path(__file__).parents[2] / "docs" / "frontend.md"
_SCHEMA = SCHEMA._schema
_ABSTRACT = [name for name, found in _SCHEMA.type_map.items() if is_abstract_type(found)]
# An operation on all types needs an alias for these. Existing clients use each of the types, so they stay.
EXCEPTIONS: Mapping[str, Mapping[str, str]] = {
    "Node": {
        "circles": "Names of circles in posts, and the circles themselves in a member.",
        "description": "A location always has a text. Products and stacks can be without one.",
        "discussion": "A comment always has its discussion. Other objects have one when somebody has opened it.",
        "slug": "A product can be without one. Categories and content always have one.",
        "state": "Trades and transfers have states of their own.",
        "status": "The state of a cart, and the status code of a request.",
        "to": "The member to whom a post is directed. The owner who gets a trade need not be a member.",
    },
    "UserError": {"available": "Units of a SKU fit into an Int. A stack can hold more."},
}


def _selection(of: GraphQLObjectType, without: Collection[str]) -> str:
    """Selects every field that needs no argument, and below objects their type."""
    shown = (
        f"{name} {{ __typename }}" if is_composite_type(get_named_type(field.type)) else name
        for name, field in of.fields.items()
        if name not in without and not any(map(is_required_argument, field.args.values()))
    )
    return f"... on {of.name} {{ __typename {' '.join(shown)} }}"


def _problems(abstract: str, without: Collection[str]) -> list[str]:
    """Returns what prevents an operation that selects the fields of all types of the interface or union."""
    shared = _SCHEMA.type_map[abstract]
    assert is_abstract_type(shared)
    selections = " ".join(_selection(one, without) for one in _SCHEMA.get_possible_types(shared))
    document = parse(f"fragment Every on {abstract} {{ {selections} }}")
    return [error.message for error in validate(_SCHEMA, document, [OverlappingFieldsCanBeMergedRule])]


@pytest.mark.parametrize("abstract", _ABSTRACT)
def test_one_operation_can_select_the_fields_of_all_types(abstract: str) -> None:
    assert _problems(abstract, EXCEPTIONS.get(abstract, ())) == []


@pytest.mark.parametrize(("abstract", "name"), [(one, name) for one, names in EXCEPTIONS.items() for name in names])
def test_every_exception_is_needed(abstract: str, name: str) -> None:
    assert _problems(abstract, set(EXCEPTIONS[abstract]) - {name})


def test_the_page_for_clients_lists_the_exceptions() -> None:
    (sentence,) = re.findall(r"These need an alias: (.*?)\.\n", PAGE.read_text(), re.DOTALL)
    listed = {
        found[-1]: set(found[:-1]) for found in (re.findall(r"`(\w+)`", part) for part in sentence.split(", and "))
    }
    assert listed == {abstract: set(names) for abstract, names in EXCEPTIONS.items()}
