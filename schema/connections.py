"""Connections: lists that can grow, in pages by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import strawberry
from graphql import GraphQLObjectType

from portico.loaders.batching import BatchRead
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.paging import Key, Listing, Page, decode_cursor, page_size

from .context import Context, Info, core
from .fields import computed
from .nodes import KINDS, types_of
from .selections import Selection, kept, selection_of

T = TypeVar("T")

PageReader = Callable[..., BatchRead[Listing, Page]]


def _cursor(index: int) -> Callable[[Any], str | None]:
    def cursor(info: Any) -> str | None:
        page: Page = info.page
        return page.cursor(page.documents[index]) if page.documents else None

    return cursor


@strawberry.type(
    description="Where a page of a connection stands in the whole. "
    "Cursors are opaque and stay valid while rows come and go."
)
class PageInfo:
    page: strawberry.Private[Page]
    has_next_page: bool = computed(lambda info: info.page.has_next, description="Whether rows follow the page.")
    start_cursor: str | None = computed(_cursor(0), description="The cursor of the first row; null for an empty page.")
    end_cursor: str | None = computed(
        _cursor(-1), description="The cursor of the last row, to go on from as `after`; null for an empty page."
    )

    @strawberry.field(description="Whether rows stand before the page.")
    async def has_previous_page(self) -> bool:
        return await self.page.has_previous()


@strawberry.type(description="A row of a connection.")
class Edge(Generic[T]):
    page: strawberry.Private[Page]
    document: strawberry.Private[Document]
    cursor: str = computed(
        lambda edge: edge.page.cursor(edge.document),
        description="Where the row stands; a later page can go on from it.",
    )
    node: T = computed(lambda edge: edge.document, description="The row itself.")


@strawberry.type(description="A page of a list that can grow.")
class Connection(Generic[T]):
    page: strawberry.Private[Page]
    edges: list[Edge[T]] = computed(
        lambda connection: [Edge(page=connection.page, document=row) for row in connection.page.documents],
        length="page",
        description="The rows with their cursors.",
    )
    nodes: list[T] = computed(lambda connection: connection.page.documents, length="page", description="The rows.")
    page_info: PageInfo = computed(
        lambda connection: PageInfo(page=connection.page), description="Where the page stands in the whole."
    )


# How each connection is read, by its name.
PAGED: dict[str, Paged] = {}


@dataclass(frozen=True)
class Paged:
    """A kind of object that is listed in pages: `pages` makes the batched read of them.

    `name` is what the names of its connection and its edge begin with, where that is not the kind's.
    """

    kind: str
    pages: PageReader
    name: str = ""

    def __post_init__(self) -> None:
        PAGED[f"{self.name or self.kind}Connection"] = self

    def projection(self, info: Any) -> Projection | None:
        """What `nodes` and `edges { node }` select below the present field. Takes graphql-core's info."""
        return kept(  # type: ignore[no-any-return]
            info,
            ("page", self.name or self.kind),
            lambda: self.row_projection(selection_of(info)),
        )

    def row_projection(self, selection: Selection) -> Projection | None:
        """What the selection on a connection needs of each row: below `nodes` and below `edges { node }`."""
        kind, name = KINDS[self.kind], self.name or self.kind
        connection, edge = (_object_type(selection, f"{name}{part}") for part in ("Connection", "Edge"))
        fields = selection.fields(connection)
        edges = selection.below(fields.get("edges", ())).fields(edge)
        rows = selection.below([*fields.get("nodes", ()), *edges.get("node", ())])
        return rows.projection(types_of(selection.schema, kind), kind.discriminator)

    async def page(self, info: Info, listing: Listing, *, first: int | None, default: int, after: str | None) -> Page:
        """The page, read together with those that sibling fields ask for. Raises InvalidInput."""
        context: Context = info.context
        size = page_size(first, default)
        key: Key | None = decode_cursor(listing, after)
        projection = self.projection(core(info))
        db: Database = context.reading

        name = ("pages", self.name or self.kind, size, key, None if projection is None else tuple(projection))
        loader = context.loader(name, lambda: self.pages(db, first=size, after=key, projection=projection))
        page = (await loader.load_all((listing,)))[listing]
        assert isinstance(page, Page)
        return page


def _object_type(selection: Selection, name: str) -> GraphQLObjectType:
    found = selection.schema.type_map[name]
    assert isinstance(found, GraphQLObjectType)
    return found


def selected_below(info: Info, type_name: str) -> Sequence[str]:
    """The names of the fields that are selected on this type below the present field."""
    raw = core(info)
    object_type = raw.schema.type_map[type_name]
    assert isinstance(object_type, GraphQLObjectType)
    return tuple(selection_of(raw).fields(object_type))
