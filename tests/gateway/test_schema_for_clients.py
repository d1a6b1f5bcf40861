"""What clients rely on in the schema: how stores keep lists and parts, and operations on all types of an interface."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from graphql import (
    GraphQLInterfaceType,
    GraphQLObjectType,
    OverlappingFieldsCanBeMergedRule,
    build_schema,
    get_named_type,
    is_abstract_type,
    is_composite_type,
    is_required_argument,
    parse,
    validate,
)

from portico.schema.kinds import Kind
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient
from tests.support.rooms import ROOT

# Lists

_PAGING = {"first", "after", "last", "before"}
_FILES = (ROOT / "docs" / "frontend.md", ROOT / "tests" / "interop" / "stores" / "apollo.mjs")


def _lists() -> Iterator[tuple[str, str, list[str]]]:
    """Yields the type, the field and the other arguments of each list. An interface stands for its types."""
    for name, found in SCHEMA._schema.type_map.items():
        if not isinstance(found, GraphQLObjectType | GraphQLInterfaceType) or name.startswith("__"):
            continue
        inherited = {field for one in found.interfaces for field in one.fields}
        for field_name, field in found.fields.items():
            inner: Any = get_named_type(field.type)
            if inner.name.endswith("Connection") and field_name not in inherited:
                yield name, field_name, sorted(set(field.args) - _PAGING)


def _policies(text: str) -> dict[str, str]:
    """Returns the text of the `fields` of each type, without white space."""
    (block,) = re.findall(r"typePolicies: \{(.*?)\n *\},\n *\}\);", text, re.DOTALL)
    without = re.sub(r"//[^\n]*|\s", "", block)
    return dict(re.findall(r"([A-Z]\w+):\{(?:keyFields:\[\],)?fields:\{(.*?)\},?\}", without))


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.name)
def test_every_list_has_its_policy(file: Path) -> None:
    policies = _policies(file.read_text())
    for type_name, field, arguments in _lists():
        keyed = ",".join(f"'{one}'" for one in arguments)
        policy = f"relayStylePagination([{keyed}])" if arguments else "paged"
        assert f",{field}:{policy}," in f",{policies.get(type_name, '')},", f"{type_name}.{field} needs {policy}"


# Fields of one name

PAGE = ROOT / "docs" / "frontend.md"
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


# Parts

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
    without = set()
    for found in build_schema((ROOT / "schema.graphql").read_text()).type_map.values():
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
