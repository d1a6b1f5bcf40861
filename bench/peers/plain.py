"""A plain strawberry server, as in its documentation: types, constructors from documents, and a DataLoader.

Two settings are in its favor. The parser and validation caches are on, and orjson writes the response: the default JSON
encoder is slower, and its escapes would make the body differ from the other peers' bodies.
"""

from enum import Enum
from typing import NewType, Self

import orjson
import strawberry
from bson import ObjectId
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.websockets import WebSocket
from strawberry.asgi import GraphQL
from strawberry.dataloader import DataLoader
from strawberry.extensions import ParserCache, ValidationCache
from strawberry.scalars import JSON
from strawberry.schema.config import StrawberryConfig

from bench.peers.queries import Document, fetch_categories, fetch_page, global_id, open_database

BigInt = NewType("BigInt", int)

db = open_database()


@strawberry.type
class Money:
    amount: BigInt
    currency: str


@strawberry.type
class Pricing:
    list: Money
    retail: Money
    savings: Money
    pct_savings: int

    @classmethod
    def from_document(cls, document: Document) -> Self:
        currency = document["currency"]
        return cls(
            list=Money(amount=document["list"], currency=currency),
            retail=Money(amount=document["retail"], currency=currency),
            savings=Money(amount=document["savings"], currency=currency),
            pct_savings=document["pct_savings"],
        )


@strawberry.type
class Breadcrumb:
    slug: str
    name: str


@strawberry.type
class Category:
    id: strawberry.ID
    slug: str
    name: str
    breadcrumbs: list[Breadcrumb]

    @classmethod
    def from_document(cls, document: Document) -> Self:
        return cls(
            id=strawberry.ID(global_id(f"Category:{document['_id']}")),
            slug=document["slug"],
            name=document["name"],
            breadcrumbs=[Breadcrumb(slug=one["slug"], name=one["name"]) for one in document["ancestors"]],
        )


async def load_categories(keys: list[ObjectId]) -> list[Category | None]:
    found = await fetch_categories(db, keys)
    return [Category.from_document(found[key]) if key in found else None for key in keys]


class Context:
    """The context of one request."""

    def __init__(self) -> None:
        self.categories = DataLoader(load_categories)


Info = strawberry.Info[Context, None]


@strawberry.interface
class Product:
    id: strawberry.ID
    sku: str
    title: str
    pricing: Pricing
    category_ids: strawberry.Private[list[ObjectId]]

    @strawberry.field
    async def categories(self, info: Info) -> list[Category]:
        found = await info.context.categories.load_many(self.category_ids)
        return [category for category in found if category is not None]


@strawberry.type
class AudioAlbum(Product):
    artist: str | None
    genres: list[str]
    tracks: list[str]


@strawberry.type
class Film(Product):
    directors: list[str]
    writers: list[str]
    actors: list[str]
    genres: list[str]
    aspect_ratio: str | None


@strawberry.type
class GeneralProduct(Product):
    type: str
    details: JSON


def product_from_document(document: Document) -> Product:
    """Return an object of the GraphQL type that the document's `type` names."""
    details = document.get("details", {})
    common = {
        "id": strawberry.ID(global_id(f"Product:{document['sku']}")),
        "sku": document["sku"],
        "title": document["title"],
        "pricing": Pricing.from_document(document["pricing"]),
        "category_ids": document["category_ids"],
    }
    if document["type"] == "Audio Album":
        return AudioAlbum(
            **common,
            artist=details.get("artist"),
            genres=details.get("genres", []),
            tracks=details.get("tracks", []),
        )
    if document["type"] == "Film":
        return Film(
            **common,
            directors=details.get("directors", []),
            writers=details.get("writers", []),
            actors=details.get("actors", []),
            genres=details.get("genres", []),
            aspect_ratio=details.get("aspect_ratio"),
        )
    return GeneralProduct(**common, type=document["type"], details=JSON(details))


@strawberry.enum
class ProductSort(Enum):
    NEWEST = "NEWEST"


@strawberry.type
class PageInfo:
    has_next_page: bool


@strawberry.type
class ProductConnection:
    nodes: list[Product]
    page_info: PageInfo


@strawberry.type
class Query:
    @strawberry.field
    async def products(self, sort: ProductSort = ProductSort.NEWEST, first: int = 20) -> ProductConnection:  # noqa: ARG002
        found = await fetch_page(db, first)
        return ProductConnection(
            nodes=[product_from_document(document) for document in found[:first]],
            page_info=PageInfo(has_next_page=len(found) > first),
        )


schema = strawberry.Schema(
    Query,
    types=[AudioAlbum, Film, GeneralProduct],
    extensions=[ParserCache, ValidationCache],
    config=StrawberryConfig(
        scalar_map={BigInt: strawberry.scalar(name="BigInt", serialize=lambda value: value, parse_value=int)},
    ),
)


class View(GraphQL[Context, None]):
    """The default view, with this server's context and orjson."""

    async def get_context(self, request: Request | WebSocket, response: Response | WebSocket) -> Context:  # noqa: ARG002
        return Context()

    def encode_json(self, data: object) -> bytes:
        return orjson.dumps(data)


app = Starlette(routes=[Route("/graphql", View(schema, graphql_ide=None))])
