"""docs/frontend.md configures every list of the schema for Apollo Client, with the arguments that belong to its key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graphql import GraphQLInterfaceType, GraphQLObjectType, get_named_type

from tests.support.domains import SCHEMA

_ROOT = Path(__file__).parents[2]
_PAGING = {"first", "after", "last", "before"}
_FILES = (_ROOT / "docs" / "frontend.md", _ROOT / "tests" / "interop" / "stores" / "apollo.mjs")


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
