"""The types and queries of the product catalog. The mutations are in `product_mutations`."""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Annotated, Any

import strawberry

from portico.loaders.catalog import products as loaders
from portico.resolvers.catalog import product_search, product_slugs
from portico.resolvers.catalog.product_facets import Asked
from portico.resolvers.catalog.product_listings import ProductListing
from portico.resolvers.catalog.product_terms import ALBUM, FILM
from portico.resolvers.catalog.products import PRODUCTS, ProductDocument
from portico.resolvers.catalog.related_products import MAX_RELATED
from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import check_length, trimmed
from portico.resolvers.typed_text import MAX_TEXT, MAX_TYPED
from portico.schema.connections import Connection, Paged, selected_below
from portico.schema.context import Context, Info
from portico.schema.fields import MAX_COSTLY, as_type, composed, costs, reads, related, stored
from portico.schema.inputs import After, Before, First, Last, Span, described
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.money import Money
from portico.schema.parts import digest_of, part_id
from portico.schema.reading import load_one
from portico.schema.scalars import JSON, BigInt

from . import product_reads
from .categories import Category
from .facets import ProductFacets, shown_facets
from .images import Image, images_field
from .product_fields import shows_plain_fields

DEFAULT_PRODUCTS = 20
_COSTLY = (
    "Counts up to a bound, by default 10,000 products. The figure can be some seconds old, except for a MERCHANT. "
    f"An operation can use at most {MAX_COSTLY} of `totalCount`, `facets` and full-text `search`."
)


_TYPE_NAMES = {ALBUM: "AudioAlbum", FILM: "Film"}


def _type_name(document: ProductDocument) -> str:
    return _TYPE_NAMES.get(document["type"], "GeneralProduct")


def _sku(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError(text)
    return text


PRODUCT = Kind(
    name="Product",
    path="sku",
    parse=_sku,
    read=loaders.by_sku,
    collection=PRODUCTS.name,
    types=("AudioAlbum", "Film", "GeneralProduct"),
    type_name=_type_name,
    discriminator=("type",),
    visible_to=Kind.everybody,
)
PAGES = Paged("Product", loaders.pages)


def _money(name: str, description: str) -> Any:
    """Declares a field for one amount of a pricing document, with the currency of the document."""
    return composed({"amount": name, "currency": "currency"}, description=description)


@strawberry.type(description="The price and the list price, and the savings between them.")
class Pricing:
    list: Money = _money("list", "The usual price.")
    retail: Money = _money("retail", "The current price.")
    savings: Money = _money("savings", "The difference between both.")
    pct_savings: int = stored(description="The savings in whole percent of the list price, rounded down.")


@strawberry.type(description="Inches.")
class Dimensions:
    width: float = stored(description="Inches.")
    height: float = stored(description="Inches.")
    depth: float = stored(description="Inches.")


@strawberry.type(description="Weight and size, for carriers.")
class Shipping:
    weight: float | None = stored(description="Ounces.")
    dimensions: Dimensions | None = stored(description="Inches.")


@strawberry.type(description="A free property of a product.")
class Property:
    id: strawberry.ID = part_id("Property", lambda one: digest_of(one["name"], one["value"]), "name", "value")
    name: str = stored(description="Any text.")
    value: str = stored(description="Any text.")


@strawberry.interface(description="The fields of every product. Prices are in minor units.")
@shows_plain_fields(before="pricing")
class Product(Node):
    id: strawberry.ID = node_id("Product", "sku")
    sku: str = stored(description="The merchant's own key; it never changes.")
    pricing: Pricing = stored(description="The current price and the list price.")
    shipping: Shipping | None = stored(description="Weight and size.")
    categories: list[Category] = related(
        "Category",
        "category_ids",
        many=True,
        length=10,
        description="The categories it is in, in the merchant's order.",
    )
    properties: list[Property] = stored(default=(), length=20, description="Free properties, in the merchant's order.")
    images: list[Image] = images_field("product")

    @reads(
        "sku",
        "terms",
        "keywords",
        "bought_with",
        length=MAX_RELATED,
        each="first",
        # The products that are compared, and their index keys.
        extra=600,
        description="The products that are bought together with this one, and those that have most in common with it: "
        "people, then categories, then genres. "
        f"At most {MAX_RELATED}.",
    )
    @staticmethod
    async def related(
        root: strawberry.Parent[ProductDocument],
        info: Info,
        first: Annotated[int, described(f"How many: 1 to {MAX_RELATED}.")] = 8,
    ) -> list["Product"]:
        return as_type(list[Product], await product_reads.related(info, PRODUCT, root, first))

    nonce: strawberry.ID = stored(
        description="Changes with every edit. An edit must pass the nonce of the version that it is based on."
    )


@strawberry.type(description="A record.")
class AudioAlbum(Product):
    artist: str | None = stored("details.artist", description="The artist.")
    genres: list[str] = stored("details.genres", default=(), length=10, description="As the merchant wrote them.")
    tracks: list[str] = stored("details.tracks", default=(), length=20, description="Titles, in order.")


@strawberry.type(description="A film.")
class Film(Product):
    directors: list[str] = stored("details.directors", default=(), length=10, description="The directors.")
    writers: list[str] = stored("details.writers", default=(), length=10, description="The writers.")
    actors: list[str] = stored("details.actors", default=(), length=20, description="Starring actors.")
    genres: list[str] = stored("details.genres", default=(), length=10, description="As the merchant wrote them.")
    aspect_ratio: str | None = stored("details.aspect_ratio", description="Width to height, e.g. `1.85:1`.")


@strawberry.type(description="A product of any other type. Its own fields are in `properties` and `details`.")
class GeneralProduct(Product):
    type: str = stored(description="The merchant's own name for the type, e.g. `Disk Drive`.")
    details: JSON = stored(default=None, description="The fields of the type, in the merchant's own structure.")


@strawberry.enum(description="The types of the schema.")
class ProductType(Enum):
    AUDIO_ALBUM = strawberry.enum_value("AUDIO_ALBUM", description="Records.")
    FILM = strawberry.enum_value("FILM", description="Films.")
    GENERAL = strawberry.enum_value("GENERAL", description="Everything else.")


@strawberry.enum(description="The order of a list of products.")
class ProductSort(Enum):
    NEWEST = strawberry.enum_value("NEWEST", description="Latest issue date first; products without a date last.")
    DISCOUNT_DESC = strawberry.enum_value("DISCOUNT_DESC", description="Highest percentage off first.")
    PRICE_ASC = strawberry.enum_value("PRICE_ASC", description="Cheapest first, by retail price.")
    PRICE_DESC = strawberry.enum_value("PRICE_DESC", description="Most expensive first, by retail price.")
    TITLE_ASC = strawberry.enum_value("TITLE_ASC", description="By title; capital letters before lower-case letters.")
    RELEVANCE = strawberry.enum_value("RELEVANCE", description="Best match first. Requires `search`.")


@strawberry.input(description="A free property of a product.")
class PropertyInput:
    name: str = strawberry.field(description="Any text; `.` and `$` too.")
    value: str = strawberry.field(description="Any text.")


# The conditions whose values need more than to be passed on.
_DECODED = {"type", "category_ids", "properties"}


@strawberry.input(description="Conditions that must all hold.")
class ProductFilter:
    type: ProductType | None = strawberry.field(default=None, description="Of this type.")
    type_names: list[str] | None = strawberry.field(
        default=None, description="Any of these types, by the merchant's own names, e.g. `Turntable`."
    )
    category_ids: list[strawberry.ID] | None = strawberry.field(
        default=None, description="Directly in any of these categories."
    )
    genres: list[str] | None = strawberry.field(
        default=None, description="Any of these genres, in any case (albums and films)."
    )
    actor: str | None = strawberry.field(default=None, description="A starring actor's whole name (films).")
    artist: str | None = strawberry.field(default=None, description="The artist's whole name (albums).")
    title_prefix: str | None = strawberry.field(
        default=None, description="The title begins with these characters, case-sensitive. Uses an index."
    )
    title_word: str | None = strawberry.field(default=None, description="The title has this word, in any case.")
    typed: str | None = strawberry.field(
        default=None,
        description="The title and the people have all of these words, in any case and without accents. The last word "
        "can be the beginning of a word. A word of 4 letters or more that nothing has finds words that differ by one "
        f"typo. A word stands for at most 64 words. Up to {MAX_TEXT} characters; words after the first {MAX_TYPED} are "
        "ignored.",
    )
    search: str | None = strawberry.field(
        default=None,
        description="Full-text search over title, description and people: any of the words; "
        '`"a phrase"` must occur, `-word` must not. '
        "A search finds a limited number of products, by default 5,000, shared equally between its words. If a "
        "word is in more products than its share, only the other words find products. If all words are, the list has "
        "only the best matches of each word, and RELEVANCE ranks them by how many of the words are in the title. "
        f"An operation can use at most {MAX_COSTLY} of `search`, `totalCount` and `facets`; a `search` beside a "
        "`totalCount` or `facets` of the same list is free.",
        metadata=costs(costly=True),
    )
    min_pct_savings: int | None = strawberry.field(default=None, description="More than this many percent off.")
    min_price: BigInt | None = strawberry.field(default=None, description="Retail price, minor units, inclusive.")
    max_price: BigInt | None = strawberry.field(default=None, description="Retail price, minor units, inclusive.")
    properties: list[PropertyInput] | None = strawberry.field(
        default=None, description="Has each of these properties, in any case."
    )
    in_stock: bool | None = strawberry.field(default=None, description="Whether units are available.")

    def query(self, context: Context, check: Callable[..., Any]) -> product_search.ProductQuery:
        """Returns the conditions, without the words that `typed` stands for. Notes those that are not valid."""
        plain = {name: value for name, value in vars(self).items() if name not in _DECODED}
        categories = None
        if self.category_ids is not None:
            categories = [
                check(Kind.key_argument, context, "Category", key, "filter", "category_ids", str(number))
                for number, key in enumerate(self.category_ids)
            ]
        if self.typed is not None:
            check(check_length, self.typed, "filter", "typed", longest=MAX_TEXT)
        return product_search.ProductQuery(
            type=None if self.type is None else self.type.name,
            category_ids=categories,
            properties=None if self.properties is None else [(pair.name, pair.value) for pair in self.properties],
            **plain,
        )


# Each word of a typed text is looked up before the products are. Each pair of a name and a value is a condition.
WEIGHTS_OF_FILTER = {"filter.typed": 400, "filter.properties": 6}
Filter = Annotated[ProductFilter | None, described("Only products that match these conditions.")]
Order = Annotated[ProductSort | None, described("The order of the list.")]


@strawberry.type(description="A page of products.")
class ProductConnection(Connection[Product]):
    asked: strawberry.Private[Asked]
    listing: strawberry.Private[ProductListing]

    @strawberry.field(
        description=f"Counted only when you select it. A lower bound if `totalCountIsExact` is false. {_COSTLY}",
        metadata=costs(extra=100, costly=True),
    )
    async def total_count(self, info: Info) -> int:
        return (await product_reads.total(info.context, self.listing)).count

    @strawberry.field(
        description="Whether the list has exactly `totalCount` products. If false, it can have more: counting ends at "
        "a bound, and considers only some products for filters and searches that match very many. Free beside "
        "`totalCount`.",
        metadata=costs(extra=100, costly=True, shares="totalCount"),
    )
    async def total_count_is_exact(self, info: Info) -> bool:
        return (await product_reads.total(info.context, self.listing)).is_exact

    @strawberry.field(
        description=f"Counted only when you select it, over everything that matches the filter. {_COSTLY}",
        metadata=costs(extra=500, costly=True),
    )
    async def facets(self, info: Info) -> ProductFacets:
        wanted = [name for name in selected_below(info, "ProductFacets") if not name.startswith("__")]
        if not wanted:
            return as_type(ProductFacets, {})
        counts = await product_reads.facets(info.context, self.asked, self.listing, wanted)
        return as_type(ProductFacets, shown_facets(counts, self.asked.query))


async def product_page(
    info: Info,
    given: ProductFilter | None,
    sort: ProductSort | None,
    *,
    span: Span,
    within: product_search.Within | None = None,
) -> ProductConnection:
    """Returns a page of products."""
    asked, listing = span.beside(DEFAULT_PRODUCTS, _asked, info.context, given, sort, within)
    if asked.query.typed is not None:
        found = await product_reads.typed_words(info.context, asked.query.typed)
        asked = replace(asked, query=replace(asked.query, typed_words=found))
        listing = asked.listing()
    if given is not None or within is not None:
        # The list of all products needs no bound: an index has its order.
        listing = await product_reads.bounded(info.context, listing)
    page = await PAGES.spanned(info, listing, span, default=DEFAULT_PRODUCTS)
    return ProductConnection(page=page, asked=asked, listing=listing)


def _asked(
    context: Context, given: ProductFilter | None, sort: ProductSort | None, within: product_search.Within | None
) -> tuple[Asked, ProductListing]:
    """Returns what a caller asks for, but for the words that a typed text stands for. Raises InvalidInput."""
    with InvalidInput.collect() as check:
        query = product_search.EVERY_PRODUCT if given is None else given.query(context, check)
        asked = Asked(query, (sort or ProductSort.NEWEST).name, within)
        listing = check(asked.listing)
    return asked, listing


@strawberry.type
class ProductQuery:
    @strawberry.field(description="The product with this SKU, or with this slug.")
    async def product(
        self,
        info: Info,
        sku: Annotated[str | None, described("The merchant's own key. Give it or `slug`.")] = None,
        slug: Annotated[str | None, described("The product's name in URLs. Give it or `sku`.")] = None,
    ) -> Product | None:
        if (sku is None) == (slug is None):
            code = InvalidInput.REQUIRED if sku is None else InvalidInput.NOT_ALLOWED
            raise InvalidInput("Give either `sku` or `slug`.", "slug", code=code)
        key = sku
        if slug is not None:
            key = await load_one(info, product_slugs.find_skus, trimmed(slug))
        return None if key is None else as_type(Product, await load_one(info, PRODUCT, trimmed(key)))

    @strawberry.field(
        description="All products, or those that match a filter.", metadata=costs(weights=WEIGHTS_OF_FILTER)
    )
    async def products(
        self,
        info: Info,
        filter: Filter = None,
        sort: Order = ProductSort.NEWEST,
        first: First = DEFAULT_PRODUCTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> ProductConnection | None:
        return await product_page(info, filter, sort, span=Span(first, after, last, before))
