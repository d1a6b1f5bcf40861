"""How a field comes out of its document: declared once, for the value, the projection and the batching.

    title: str = stored()                                       at the path of its own name
    artist: str | None = stored("details.artist")               at another path
    savings: Money = computed(savings_of, "savings", "currency")  worked out from the values at these paths
    categories: list[Category] = related("Category", "category_ids", many=True)

    @reads("_id")                                               a resolver method, and what it reads of the document
    async def children(...)

A document is a mapping, and is itself the object of its GraphQL type; nothing is copied. A plain `@strawberry.field`
method works too; as nobody knows what it reads, the whole document is fetched for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import strawberry
from strawberry.types.field import StrawberryField

Source = Mapping[str, Any]
# Most read documents; the source of a connection's fields is the connection.
Getter = Callable[[Any], Any]

_SOURCE = "portico.source"


@dataclass(frozen=True)
class Stored:
    """A value at a path; `default` where there is none, or null."""

    path: str
    default: Any = None


@dataclass(frozen=True)
class Computed:
    """A function of the document, which reads it at `needs`."""

    function: Getter
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Related:
    """Other documents, by the keys at a path; with `many` a list of them, without those that are gone."""

    kind: str
    path: str
    many: bool


@dataclass(frozen=True)
class Method:
    """A resolver method, which reads the document at `needs`."""

    needs: tuple[str, ...]


Declaration = Stored | Computed | Related | Method


def stored(path: str = "", *, default: Any = None, description: str | None = None) -> Any:
    """A field at a path of the document. Where its type is an object type, that type's paths stand below this one."""
    return strawberry.field(metadata={_SOURCE: Stored(path, default)}, description=description)


def computed(function: Getter, *needs: str, description: str | None = None) -> Any:
    field: Any = strawberry.field(metadata={_SOURCE: Computed(function, needs)}, description=description)
    # Where its type has instances, they are made without it.
    field.init = False
    return field


def related(kind: str, path: str, *, many: bool = False, description: str | None = None) -> Any:
    return strawberry.field(metadata={_SOURCE: Related(kind, path, many)}, description=description)


def reads(*needs: str, description: str | None = None) -> Any:
    return strawberry.field(metadata={_SOURCE: Method(needs)}, description=description)


def declaration_of(field: StrawberryField) -> Declaration | None:
    """How the field was declared, with its path settled; None for a plain strawberry field."""
    declared: Declaration | None = field.metadata.get(_SOURCE)
    if isinstance(declared, Stored) and not declared.path:
        return Stored(str(field.python_name), declared.default)
    return declared


def getter(path: str, default: Any = None) -> Getter:
    """A function that reads the value at a dotted path, and answers `default` where there is none, or null."""
    names = path.split(".")
    if len(names) == 1:

        def read_own(source: Source) -> Any:
            value = source.get(path)
            return default if value is None else value

        return read_own

    def read_below(source: Source) -> Any:
        value: Any = source
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return default if value is None else value

    return read_below
