"""Connections: lists that clients read page by page."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import strawberry
from graphql import GraphQLObjectType

from portico.loaders import declaring
from portico.loaders.batching import BatchRead
from portico.resolvers.backward_pages import BackwardPage
from portico.resolvers.documents import CollectionSpec, D, Document, Projection, projection_name
from portico.resolvers.errors import InvalidInput
from portico.resolvers.paging import Key, Listing, Page
from portico.schema.kinds import BatchRule, Kind, types_of

from .context import Context, Info, core
from .fields import Source, computed, costs
from .inputs import Span
from .nodes import visible_of
from .selections import Selection, cached, selection_of

T = TypeVar("T")
# The most rows that a page reads for a caller who sees none of them, about.
_MOST_HIDDEN = 2_000
# After hidden rows, each read takes this many times the rows of the one before, up to the most.
_GROWTH, _MOST_ROWS = 4, 400

# `totalCount` counts up to so many rows. MongoDB examines up to a key and a document for each.
MOST_COUNTED = 1_000
_COUNT = 2_500

CountRule = Callable[[Context, Mapping[str, Any]], bool]
PageReader = Callable[..., BatchRead[Listing, Page]]


@strawberry.type(
    description="The position of a page in the list of a connection. "
    "Cursors are opaque, and stay valid when rows are added or removed."
)
class PageInfo:
    page: strawberry.Private[Page]
    has_next_page: bool = computed(
        lambda info: info.page.has_next,
        description="Whether there can be rows that you see after the page. Some lists examine a limited number of "
        "rows for a page: the page then has fewer rows than `first`, or none, and the list continues after "
        "`endCursor`.",
    )
    start_cursor: str | None = computed(
        lambda info: info.page.start_cursor,
        description="The position of the page's beginning, for `before` of the previous page; null for an empty page "
        "at an end of the list.",
    )
    end_cursor: str | None = computed(
        lambda info: info.page.end_cursor,
        description="The position of the page's end, for `after` of the next page; null for an empty page "
        "at an end of the list.",
    )

    @strawberry.field(description="Whether there are rows that you see before the page.")
    async def has_previous_page(self, info: Info) -> bool:
        # A loader, because each alias asks again.
        return bool(await info.context.loader("previous pages", declaring.have_previous).load(self.page))


@strawberry.type(description="A row of a connection.")
class Edge(Generic[T]):
    page: strawberry.Private[Page]
    document: strawberry.Private[Document]
    cursor: str = computed(
        lambda edge: edge.page.cursor(edge.document),
        description="The position of the row. Use it as `after` to get the rows after this one.",
    )
    node: T = computed(lambda edge: edge.document, description="The row itself.")


def edge_of(context: Context, collection: str, listing: Listing, document: Source) -> Edge[Any]:
    """Returns a row of the listing, with its position, for the payload of the mutation that has written it."""
    row = dict(document)
    page: Page = Page(listing, context.db[collection], [row], has_next=False)
    page.cursors = context.cursors
    return Edge(page=page, document=row)


@strawberry.type(description="A page of a list.")
class Connection(Generic[T]):
    page: strawberry.Private[Page]
    edges: list[Edge[T]] = computed(
        lambda connection: [Edge(page=connection.page, document=row) for row in connection.page.documents],
        length="page",
        description="The rows with their cursors.",
    )
    nodes: list[T] = computed(lambda connection: connection.page.documents, length="page", description="The rows.")
    page_info: PageInfo = computed(
        lambda connection: PageInfo(page=connection.page), description="The position of the page in the list."
    )


@strawberry.type
class Counted:
    """The fields that the connection of a counted list has in addition."""

    page: strawberry.Private[Page]

    @strawberry.field(
        metadata=costs(extra=_COUNT),
        description=f"How many rows the whole list has, up to {MOST_COUNTED:,}. Counted only when you select it. A "
        "lower bound if `totalCountIsExact` is false.",
    )
    async def total_count(self, info: Info) -> int:
        return min(await _count_of(info.context, self.page), MOST_COUNTED)

    @strawberry.field(
        metadata=costs(extra=_COUNT),
        description="Whether the list has exactly `totalCount` rows. If false, it has more.",
    )
    async def total_count_is_exact(self, info: Info) -> bool:
        return await _count_of(info.context, self.page) <= MOST_COUNTED


async def _count_of(context: Context, page: Page) -> int:
    """Returns the number of rows of the list, at most one more than are shown; read in one batch with other counts."""
    if not page.is_counted:
        return 0
    collection = page.collection
    name = ("counts", collection.name)
    loader = context.loader(name, lambda: declaring.counts(collection, most=MOST_COUNTED + 1))
    return await loader.load(page.listing) or 0


@dataclass(frozen=True)
class Paged:
    """A kind of object that is listed in pages. `pages` makes the batched read of pages.

    The names of the connection and the edge begin with `name`, or with the kind's name if `name` is empty.

    The query of a listing filters out the rows that the caller may not see. The rule of the kind is checked
    nevertheless: hidden rows are left out, and the rows after them fill up the page. So a listing without such a filter
    shows no hidden row either, but reads them. `shown_to` replaces that part of the kind's rule.

    With `counts`, the connection has `totalCount`. It is a function of the context and the filter of a listing: whether
    the caller sees each row that matches the filter. Otherwise the count is 0. An index must lead to these rows alone.
    """

    kind: str
    pages: PageReader
    name: str = ""
    shown_to: BatchRule | None = None
    counts: CountRule | None = None

    @staticmethod
    def of(kind: Kind[D], spec: CollectionSpec, *, name: str = "", counts: CountRule | None = None) -> "Paged":
        """Returns the definition of the pages of a kind whose objects are the documents of one collection.

        Args:     name: the prefix of the connection's name; by default, the name of the kind.
                  counts: gives the connection `totalCount`. It takes the context and the filter of a listing, and
                  returns whether the caller sees each row that matches the filter. An index must lead to these rows
                  alone.
        """
        return Paged(kind.name, declaring.pages(spec), name=name, counts=counts)

    @property
    def connection(self) -> str:
        """The name of the connection."""
        return f"{self.name or self.kind}Connection"

    def projection(self, info: Any) -> Projection | None:
        """Returns the projection of the rows for the current field's selection. Takes graphql-core's info."""
        return cached(  # type: ignore[no-any-return]
            info,
            ("page", self.name or self.kind),
            lambda: self.row_projection(selection_of(info), info.context.served.kinds[self.kind]),
        )

    def row_projection(self, selection: Selection, kind: Kind) -> Projection | None:
        """Returns the projection of each row for a selection on a connection, for `nodes` and `edges { node }`."""
        name = self.name or self.kind
        connection, edge = (_object_type(selection, f"{name}{part}") for part in ("Connection", "Edge"))
        fields = selection.fields(connection)
        edges = selection.below(fields.get("edges", ())).fields(edge)
        rows = selection.below([*fields.get("nodes", ()), *edges.get("node", ())])
        return rows.projection(types_of(selection.schema, kind), kind.discriminator)

    def spanned(self, info: Info, listing: Listing, span: Span, *, default: int) -> Awaitable[Page]:
        """Returns the page that the arguments of a connection ask for, like `page`."""
        first, after, last, before = span
        return self.page(info, listing, first=first, default=default, after=after, last=last, before=before)

    async def page(
        self,
        info: Info,
        listing: Listing,
        *,
        first: int | None,
        default: int,
        after: str | None,
        last: int | None = None,
        before: str | None = None,
    ) -> Page:
        """Returns the page, read in one batch with the pages of sibling fields. Raises InvalidInput.

        With `last` or `before`, it is a page of the opposite order, whose rows are turned round again.
        """
        size, key, is_backwards = extent_of(info.context, listing, Span(first, after, last, before), default=default)
        read = await self._read(info, listing.reversed() if is_backwards else listing, size, key)
        page = BackwardPage(read, listing, before=key) if is_backwards else read
        page.cursors = info.context.cursors
        page.is_counted = self.counts is not None and self.counts(info.context, listing.filter)
        return page

    async def _read(self, info: Info, listing: Listing, size: int, key: Key | None) -> Page:
        context: Context = info.context
        projection = self.projection(core(info))
        # No function, because its annotations would be evaluated for each page.
        read: PageReader = partial(self.pages, context.reading, projection=projection)
        kind: Kind = context.served.kinds[self.kind]
        if self.shown_to is not None:
            kind = replace(kind, shown_to=self.shown_to)
        name = ("pages", self.name or self.kind, self.shown_to, size, key, projection_name(projection))
        loader = context.loader(
            name, lambda: read(first=size, after=key) if kind.is_open else _Visible(context, kind, read, size, key)
        )
        page = (await loader.load_all((listing,)))[listing]
        if isinstance(page, Exception):
            raise page
        assert isinstance(page, Page)
        page.cursors = context.cursors
        if self.shown_to is None:
            # Another rule than the kind's does not say whether the caller sees what the rows contain.
            context.listed.append((kind, page.documents))
        return page


class Extent(NamedTuple):
    """Which rows of a listing are wanted: at most `size`, after the key, or before it if `is_backwards`."""

    size: int
    key: Key | None
    is_backwards: bool

    def page_of(self, context: Context, read: Page) -> Page:
        """Returns a page with its cursors. `read` is one of the list, or of the opposite list if `is_backwards`."""
        page = BackwardPage(read, read.listing.reversed(), before=self.key) if self.is_backwards else read
        page.cursors = context.cursors
        return page


def extent_of(context: Context, listing: Listing, span: Span, *, default: int) -> Extent:
    """Returns the rows that the arguments of a connection ask for. Raises InvalidInput, with all invalid ones."""
    is_backwards = span.is_backwards
    cursor, name = (span.before, "before") if is_backwards else (span.after, "after")
    if cursor is None:
        return Extent(span.size(default), None, is_backwards)
    with InvalidInput.collect() as check:
        size = check(span.size, default)
        key = check(position_of, context, listing, cursor, name)
    return Extent(size, key, is_backwards)


def position_of(context: Context, listing: Listing, cursor: str | None, name: str = "after") -> Key | None:
    """Returns the position of a cursor in the listing; None without a cursor. Raises InvalidInput for the argument."""
    return None if cursor is None else context.cursors.decode(listing.binding(), len(listing.sort.keys), cursor, name)


@dataclass(frozen=True)
class _Visible:
    """A batched read of pages, without the rows that the caller may not see. `read` makes the read of some rows.

    It reads on until it has one visible row more than a page. So nothing that a page says depends on hidden rows: not
    its rows, and not whether there are others before and after it.

    To fill up a page, each read takes four times as many rows as the one before. So many hidden rows take few commands.
    After `_MOST_HIDDEN` rows, the page ends early.
    """

    context: Context
    kind: Kind
    read: PageReader
    size: int
    after: Key | None

    async def __call__(self, listings: Sequence[Listing]) -> Mapping[Listing, Any]:
        pages = await self.read(first=self.size + 1, after=self.after)(listings)
        rows = {(listing, index): row for listing in pages for index, row in enumerate(pages[listing].documents)}
        visible = await visible_of(self.context, self.kind, rows)
        found: dict[Listing, Any] = {}
        for listing, page in pages.items():
            # The rule may show copies of the rows.
            shown = [visible[place] for index in range(len(page.documents)) if (place := (listing, index)) in visible]
            found[listing] = await self._filled(listing, page, shown)
        return found

    async def _filled(self, listing: Listing, page: Page, shown: list[Document]) -> Page | Exception:
        """Returns the page with these rows, filled up with the visible rows after the page."""
        following, rows, considered = page, self.size + 1, len(page.documents)
        end: Key | None = None
        while following.has_next and len(shown) <= self.size:
            end = following.end or listing.sort.key_of(following.documents[-1])
            if considered >= _MOST_HIDDEN:
                break
            rows = min(_GROWTH * rows, max(_MOST_ROWS, self.size))
            following = (await self.read(first=rows, after=end)([listing]))[listing]
            considered += rows
            visible = await visible_of(self.context, self.kind, dict(enumerate(following.documents)))
            shown += [visible[index] for index in sorted(visible)]
            end = None
        page.documents, page.has_next = shown[: self.size], len(shown) > self.size or end is not None
        page.end = None if len(shown) > self.size else end
        page.sees_before = self._sees_before
        wrong: Any = next((row for row in page.documents if isinstance(row, Exception)), None)
        return wrong or page

    async def _sees_before(self, page: Page) -> bool:
        """Returns whether the caller sees a row before the page, or too many hidden rows precede it."""
        paths = {"_id": 1, **dict.fromkeys(self.kind.discriminator, 1)}
        key, limit, considered = page.after, 1, 0
        while considered < _MOST_HIDDEN:
            assert key is not None
            rows = await page.rows_before(key, limit, paths)
            visible = await visible_of(self.context, self.kind, dict(enumerate(rows)))
            if any(not isinstance(row, Exception) for row in visible.values()):
                return True
            if len(rows) < limit:
                return False
            # The next read begins with the last row of this one.
            key, limit, considered = (
                page.listing.sort.key_of(rows[-1]),
                min(_GROWTH * limit, _MOST_ROWS),
                considered + limit,
            )
        return True


def _object_type(selection: Selection, name: str) -> GraphQLObjectType:
    found = selection.schema.type_map[name]
    assert isinstance(found, GraphQLObjectType)
    return found


def selected_below(info: Info, type_name: str) -> Sequence[str]:
    """Returns the names of the fields that are selected on this type below the current field."""
    raw = core(info)
    object_type = raw.schema.type_map[type_name]
    assert isinstance(object_type, GraphQLObjectType)
    return tuple(selection_of(raw).fields(object_type))
