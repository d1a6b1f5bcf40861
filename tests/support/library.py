"""A domain for tests: readers, and books on shelves.

All callers see readers. Only its owner sees a shelf, unless it has no owner. A caller who sees a shelf also sees its
books. The lists of books do not filter, so only the visibility rule hides books.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any, cast

import pytest
import strawberry

from portico.gateway import domains
from portico.gateway.clock import Clock
from portico.gateway.settings import Settings
from portico.loaders.batching import BatchRead
from portico.resolvers.declarations import Domain
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.paging import Key, Listing, Page, Sort, find_pages
from portico.schema.connections import Connection, Paged
from portico.schema.context import Info
from portico.schema.fields import reads, related, stored
from portico.schema.inputs import After, First
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.reading import load_one
from tests.support.harness import GatewayClient, running


def _by_id(collection: str) -> Any:
    def by_id(db: Database, projection: Projection | None) -> BatchRead[str, Document]:
        async def read(keys: Sequence[str]) -> Mapping[str, Document]:
            found = await db[collection].find({"_id": {"$in": list(keys)}}, projection).to_list()
            return {document["_id"]: document for document in found}

        return read

    return by_id


def _pages(collection: str) -> Any:
    def pages(
        db: Database, *, first: int, after: Key | None, projection: Projection | None
    ) -> BatchRead[Listing, Page]:
        async def read(listings: Sequence[Listing]) -> Mapping[Listing, Page]:
            found = await find_pages(db[collection], listings, first=first, after=after, projection=projection)
            return dict(zip(listings, found, strict=True))

        return read

    return pages


def kind_of(name: str, **rule: Any) -> Kind:
    return Kind(
        name=name,
        path="_id",
        parse=str,
        read=_by_id(f"{name.lower()}s"),
        types=(name,),
        type_name=lambda _document: name,
        **rule,
    )


SHELF = kind_of(
    "Shelf", discriminator=("owner",), visible_to=lambda shelf, context: shelf["owner"] in {None, context.subject}
)
BOOK = kind_of("Book", discriminator=("shelf",), within=lambda book: ("Shelf", book["shelf"]))
READER = kind_of("Reader", visible_to=Kind.everybody)
_BOOKS = Paged("Book", _pages("books"))
_SHELVES = Paged("Shelf", _pages("shelfs"))


@strawberry.type
class Shelf(Node):
    id: strawberry.ID = node_id("Shelf", "_id")

    @reads("_id")
    @staticmethod
    async def books(
        root: strawberry.Parent[Document], info: Info, first: First = 3, after: After = None
    ) -> Connection[Book]:
        return await _book_page(info, {"shelf": root["_id"]}, first, after)


@strawberry.type
class Book(Node):
    id: strawberry.ID = node_id("Book", "_id")
    title: str = stored("_id")
    shelf: Shelf = related("Shelf", "shelf")
    reader: Reader | None = related("Reader", "reader")


@strawberry.type
class Reader(Node):
    id: strawberry.ID = node_id("Reader", "_id")
    name: str = stored("_id")
    favourite: Book | None = related("Book", "favourite")
    present: Book = related("Book", "favourite")
    lent: Book | None = related("Book", "favourite", discloses=True)
    read: list[Book] = related("Book", "read", many=True)
    friends: list[Reader] = related("Reader", "friends", many=True)

    @strawberry.field
    @staticmethod
    async def books(info: Info, first: First = 3, after: After = None) -> Connection[Book]:
        return await _book_page(info, {}, first, after)


async def _book_page(info: Info, which: Document, first: int | None, after: str | None) -> Connection[Book]:
    listing = Listing(which, Sort(()))
    return Connection(page=await _BOOKS.page(info, listing, first=first, default=3, after=after))


@strawberry.type
class LibraryQuery:
    @strawberry.field
    async def reader(self, info: Info, name: str) -> Reader | None:
        return cast("Reader | None", await load_one(info, READER, name))

    @strawberry.field
    async def shelves(self, info: Info, first: First = 3, after: After = None) -> Connection[Shelf]:
        listing = Listing({}, Sort(()))
        return Connection(page=await _SHELVES.page(info, listing, first=first, default=3, after=after))


DOMAIN = Domain(
    name="library", about="Books.", kinds=(SHELF, BOOK, READER), pages=(_BOOKS, _SHELVES), queries=(LibraryQuery,)
)


@contextlib.contextmanager
def served(monkeypatch: pytest.MonkeyPatch, name: str = "library", module: str = __name__) -> Iterator[None]:
    """Serves a domain as if a package declared it. Afterwards, the process has only the built-in domains again."""
    entry = metadata.EntryPoint(name, f"{module}:DOMAIN", domains.GROUP)
    with monkeypatch.context() as patched:
        patched.setattr(metadata, "entry_points", lambda **_: [entry])
        yield
    domains.load_once.cache_clear()


@contextlib.asynccontextmanager
async def serving(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, name: str, module: str, *, clock: Clock | None = None
) -> AsyncIterator[GatewayClient]:
    """Runs a gateway that serves the domain of this module, and the other `domains` of the settings."""
    with served(monkeypatch, name, module):
        async with running(settings, clock=clock) as gateway:
            yield gateway


@contextlib.asynccontextmanager
async def library(settings: Settings, monkeypatch: pytest.MonkeyPatch, *changed: Kind) -> AsyncIterator[GatewayClient]:
    """Runs a gateway that serves only this domain, with some kinds in place of those of the same names."""
    kinds = {kind.name: kind for kind in (*DOMAIN.kinds, *changed)}
    monkeypatch.setattr(sys.modules[__name__], "DOMAIN", replace(DOMAIN, kinds=tuple(kinds.values())))
    async with serving(monkeypatch, replace(settings, domains="library"), "library", __name__) as gateway:
        yield gateway
