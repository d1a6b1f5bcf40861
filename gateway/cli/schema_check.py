"""Prints the schema as text, and finds its changes since an older text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import strawberry
from graphql import (
    GraphQLError,
    GraphQLSchema,
    assert_valid_schema,
    build_schema,
    find_breaking_changes,
    find_dangerous_changes,
    lexicographic_sort_schema,
    print_schema,
)
from graphql.utilities.find_schema_changes import find_schema_changes


class Severity(IntEnum):
    """How a change affects clients. The value is the exit status: 1 and 2 are those of commands that fail."""

    SAFE = 0
    DANGEROUS = 3
    BREAKING = 4


@dataclass(frozen=True)
class Change:
    severity: Severity
    description: str


def print_sdl(schema: strawberry.Schema) -> str:
    """Returns the schema in the definition language, sorted, so that the text changes only if the schema does."""
    # Prints before it sorts: strawberry's enums print their defaults, but their sorted copies cannot.
    printed = print_schema(schema._schema)  # noqa: SLF001 - strawberry has no public attribute for it
    return print_schema(lexicographic_sort_schema(_built(printed))) + "\n"


def _built(sdl: str) -> GraphQLSchema:
    """Builds a schema from the text of a valid one."""
    return build_schema(sdl, assume_valid=True, no_location=True)


def check(old_sdl: str, schema: strawberry.Schema) -> list[Change]:
    """Returns the changes since an older schema, worst first. Raises ValueError if the text is not a schema."""
    try:
        old, new = build_schema(old_sdl), _built(print_sdl(schema))
        assert_valid_schema(old)
    except (GraphQLError, TypeError) as error:
        raise ValueError(str(error).split("\n", 1)[0]) from None
    breaking = {change.description for change in find_breaking_changes(old, new)}
    dangerous = {change.description for change in find_dangerous_changes(old, new)}
    found = []
    for change in find_schema_changes(old, new):
        text = change.description
        severity = Severity.BREAKING if text in breaking else Severity.DANGEROUS if text in dangerous else Severity.SAFE
        found.append(Change(severity, text))
    return sorted(found, key=lambda change: (-change.severity, change.description))
