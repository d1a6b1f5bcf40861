"""Connections: lists that can grow, in pages by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import strawberry
from graphql import GraphQLObjectType

from loaders.batching import BatchRead
from resolvers.documents import Database, Document, Projection
from resolvers.paging import Key, Listing, Page, decode_cursor, page_size

from .context import Context, Info, core
from .nodes import KINDS, Kind, types_of
from .selections import Selection, kept, selection_of

T = TypeVar("T")

PageReader = Callable[..., BatchRead[Listing, Page]]


@strawberry.type(
    description="Where a page of a connection stands in the whole. "
    "Cursors are opaque and stay valid while rows come and go."
)
class PageInfo:
    page: strawberry.Private[Page]

    @strawberry.field(description="Whether rows follow the page.")
    def has_next_page(self) -> bool:
        return self.page.has_next

    @strawberry.field(description="Whether rows stand before the page.")
    async def has_previous_page(self) -> bool:
        return await self.page.has_previous()

    @strawberry.field(description="The cursor of the first row; null for an empty page.")
    def start_cursor(self) -> str | None:
        return self.page.cursor(self.page.documents[0]) if self.page.documents else None

    @strawberry.field(description="The cursor of the last row, to go on from as `after`; null for an empty page.")
    def end_cursor(self) -> str | None:
        return self.page.cursor(self.page.documents[-1]) if self.page.documents else None


@strawberry.type(description="A row of a connection.")
class Edge(Generic[T]):
    page: strawberry.Private[Page]
    document: strawberry.Private[Document]

    @strawberry.field(description="Where the row stands; a later page can go on from it.")
    def cursor(self) -> str:
        return self.page.cursor(self.document)

    @strawberry.field(description="The row itself.")
    def node(self) -> T:
        return cast("T", self.document)


@strawberry.type(description="A page of a list that can grow.")
class Connection(Generic[T]):
    page: strawberry.Private[Page]

    @strawberry.field(description="The rows with their cursors.")
    def edges(self) -> list[Edge[T]]:
        return [Edge(page=self.page, document=document) for document in self.page.documents]

    @strawberry.field(description="The rows.")
    def nodes(self) -> list[T]:
        return cast("list[T]", self.page.documents)

    @strawberry.field(description="Where the page stands in the whole.")
    def page_info(self) -> PageInfo:
        return PageInfo(page=self.page)


@dataclass(frozen=True)
class Paged:
    """A kind of object that is listed in pages: `pages` makes the batched read of them."""

    kind: str
    pages: PageReader

    def projection(self, info: Any) -> Projection | None:
        """What `nodes` and `edges { node }` select below the present field. Takes graphql-core's info."""
        kind = KINDS[self.kind]
        return kept(info, ("page", self.kind), lambda: self._work_out(info, kind))  # type: ignore[no-any-return]

    def _work_out(self, info: Any, kind: Kind) -> Projection | None:
        selection = selection_of(info)
        connection = info.schema.type_map[f"{self.kind}Connection"]
        edge = info.schema.type_map[f"{self.kind}Edge"]
        fields = selection.fields(connection)
        edges = selection.below(fields.get("edges", ())).fields(edge)
        nodes: Selection = selection.below([*fields.get("nodes", ()), *edges.get("node", ())])
        return nodes.projection(types_of(info.schema, kind), kind.discriminator)

    async def page(self, info: Info, listing: Listing, *, first: int | None, default: int, after: str | None) -> Page:
        """The page, read together with those that sibling fields ask for. Raises InvalidInput."""
        context: Context = info.context
        size = page_size(first, default)
        key: Key | None = decode_cursor(listing, after)
        projection = self.projection(core(info))
        db: Database = context.reading

        name = ("pages", self.kind, size, key, None if projection is None else tuple(projection))
        loader = context.loader(name, lambda: self.pages(db, first=size, after=key, projection=projection))
        page = await loader.load(listing)
        assert isinstance(page, Page)
        return page


def selected_below(info: Info, type_name: str) -> Sequence[str]:
    """The names of the fields that are selected on this type below the present field."""
    raw = core(info)
    object_type = raw.schema.type_map[type_name]
    assert isinstance(object_type, GraphQLObjectType)
    return tuple(selection_of(raw).fields(object_type))
