"""The mutations of the product catalog, for merchants."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import strawberry

from portico.resolvers.catalog import product_deletions, product_edits, product_search, products, refusals
from portico.resolvers.catalog.product_fields import PLAIN
from portico.resolvers.catalog.product_rules import Price, ProductFields, changed_product
from portico.resolvers.catalog.refusals import ProductInUse, SkuTaken
from portico.resolvers.documents import Document, DocumentId
from portico.resolvers.errors import SlugTaken
from portico.schema.connections import Edge, edge_of
from portico.schema.context import Context, Info
from portico.schema.errors import InvalidInput, NotFound, UserError, failure, member
from portico.schema.fields import as_document, as_type, costs, kept_privately
from portico.schema.inputs import idempotency_key
from portico.schema.kinds import Kind
from portico.schema.money import Money
from portico.schema.mutations import DeletedPayload, mutation
from portico.schema.reading import load_one
from portico.schema.scalars import JSON

from .categories import CATEGORY, Category
from .merchants import MERCHANT
from .product_fields import changes_plain_fields, takes_plain_fields
from .products import Product, PropertyInput

# Most edits take a product out of fewer categories.
_FORMER = 10


@strawberry.input(description="Both prices in the same currency; `retail` is at most `list`.")
class PricingInput:
    list: Money.Input = strawberry.field(description="The usual price.")
    retail: Money.Input = strawberry.field(description="The current price.")

    def prices(self) -> tuple[Price, Price]:
        return (
            Price(int(self.list.amount), self.list.currency),
            Price(int(self.retail.amount), self.retail.currency),
        )


@strawberry.input(description="Inches.")
class DimensionsInput:
    width: float = strawberry.field(description="Inches.")
    height: float = strawberry.field(description="Inches.")
    depth: float = strawberry.field(description="Inches.")


@strawberry.input(description="Weight and size, for carriers.")
class ShippingInput:
    weight: float | None = strawberry.field(default=None, description="Ounces.")
    dimensions: DimensionsInput | None = strawberry.field(default=None, description="Inches.")

    def measures(self) -> tuple[float | None, tuple[float, float, float] | None]:
        size = self.dimensions
        return self.weight, None if size is None else (size.width, size.height, size.depth)


@strawberry.input(description="A new product.")
@takes_plain_fields(before="pricing")
class CreateProductInput:
    sku: str = strawberry.field(description="Unique; it never changes.")
    type: str = strawberry.field(description="`Audio Album`, `Film`, or the merchant's own type.")
    pricing: PricingInput = strawberry.field(description="What it costs.")
    shipping: ShippingInput | None = strawberry.field(default=None, description="Weight and size.")
    category_ids: list[strawberry.ID] = strawberry.field(default_factory=list, description="The categories it is in.")
    properties: list[PropertyInput] = strawberry.field(default_factory=list, description="Free properties.")
    details: JSON | None = strawberry.field(
        default=None,
        description="The fields of the type, e.g. artist, genres, tracks or directors. They are validated.",
    )
    idempotency_key: str | None = idempotency_key()

    def fields(self, context: Context) -> ProductFields:
        list_price, retail_price = self.pricing.prices()
        weight, dimensions = (None, None) if self.shipping is None else self.shipping.measures()
        return ProductFields(
            sku=self.sku,
            type=self.type,
            plain={name: getattr(self, name) for name in PLAIN},
            list_price=list_price,
            retail_price=retail_price,
            weight=weight,
            dimensions=dimensions,
            category_ids=_category_keys(context, self.category_ids),
            properties=_pairs(self.properties),
            details={} if self.details is None else self.details,
        )


@strawberry.input(description="An edit of a product. Omitted fields keep their values.")
@changes_plain_fields(before="pricing")
class UpdateProductInput:
    id: strawberry.ID = strawberry.field(description="The product.")
    nonce: strawberry.ID = strawberry.field(description="The nonce of the version that the edit is based on.")
    pricing: strawberry.Maybe[PricingInput | None] = strawberry.field(
        description="What it costs; it cannot be cleared."
    )
    shipping: strawberry.Maybe[ShippingInput | None] = strawberry.field(description="Null clears it.")
    category_ids: strawberry.Maybe[list[strawberry.ID] | None] = strawberry.field(
        description="The new list of categories; null for none."
    )
    properties: strawberry.Maybe[list[PropertyInput] | None] = strawberry.field(
        description="The new list of properties; null for none."
    )
    details: strawberry.Maybe[JSON | None] = strawberry.field(description="The new details, as a whole; null for none.")
    idempotency_key: str | None = idempotency_key()

    def changes(self, context: Context) -> dict[str, Any]:
        """Returns the given fields as the changes of `changed_product`."""
        makers: dict[str, Callable[[Any], Any]] = {
            "pricing": lambda pricing: pricing.prices(),
            "shipping": lambda shipping: shipping.measures(),
            "category_ids": partial(_category_keys, context),
            "properties": _pairs,
        }
        names = (*PLAIN, "details", *makers)
        given = {name: found.value for name in names if (found := getattr(self, name)) is not None}
        return {
            name: value if value is None or name not in makers else makers[name](value) for name, value in given.items()
        }


def _category_keys(context: Context, ids: Sequence[str]) -> list[DocumentId]:
    return [Kind.key_in(context, "Category", global_id) for global_id in ids]


def _pairs(properties: Sequence[PropertyInput]) -> list[tuple[str, str]]:
    return [(pair.name, pair.value) for pair in properties]


@strawberry.input(description="The product to remove.")
class DeleteProductInput:
    id: strawberry.ID = strawberry.field(description="The product.")
    nonce: strawberry.ID = strawberry.field(description="The nonce from your last read of the product.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The product after the write.")
class ProductPayload:
    product: Product = strawberry.field(description="The current product.")
    edited: strawberry.Private[Document | None] = kept_privately()

    @strawberry.field(
        name="from",
        metadata=costs(length=_FORMER),
        description="The categories that an edit took the product out of, as they are now. Empty after other changes.",
    )
    async def from_(self, info: Info) -> list[Category]:
        keys = [] if self.edited is None else self.edited["from"]
        found = await asyncio.gather(*(load_one(info, CATEGORY, key) for key in keys))
        return as_type(list[Category], [category for category in found if category is not None])

    @strawberry.field(description="The product as a row of `products` in the default order.")
    def product_edge(self, info: Info) -> Edge[Product]:
        listing = product_search.listing_of(product_search.ProductQuery(), "NEWEST")
        return edge_of(info.context, products.PRODUCTS.name, listing, as_document(self.product))


failure("Another product has the SKU.", sku="The SKU in question.")(SkuTaken)


@member(refusals.ProductEditConflict)
@strawberry.type(description="The product changed since the nonce was read.")
class ProductEditConflict(UserError):
    current: Product = strawberry.field(description="As it is now, with its present nonce.")


failure("Carts still hold units of the product.")(ProductInUse)


CreateProductResult = Annotated[
    ProductPayload | SkuTaken | SlugTaken | NotFound | InvalidInput,
    strawberry.union("CreateProductResult", description="The result of creating a product."),
]
UpdateProductResult = Annotated[
    ProductPayload | ProductEditConflict | SlugTaken | NotFound | InvalidInput,
    strawberry.union("UpdateProductResult", description="The result of editing a product."),
]
DeleteProductResult = Annotated[
    DeletedPayload | ProductEditConflict | ProductInUse | NotFound,
    strawberry.union("DeleteProductResult", description="The result of deleting a product."),
]


@strawberry.type
class ProductMutation:
    @mutation(role=MERCHANT, description="Creates a product. For a MERCHANT.")
    async def create_product(self, info: Info, input: CreateProductInput) -> CreateProductResult | None:
        created = await product_edits.create_product(
            info.context.db,
            fields=input.fields(info.context),
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return ProductPayload(product=as_type(Product, created))

    @mutation(role=MERCHANT, description="Edits a product, if its nonce is still the same. For a MERCHANT.")
    async def update_product(self, info: Info, input: UpdateProductInput) -> UpdateProductResult | None:
        changes = input.changes(info.context)
        updated = await product_edits.update_product(
            info.context.db,
            sku=Kind.key_in(info.context, "Product", input.id),
            nonce=input.nonce,
            change=lambda product: changed_product(product, changes),
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        edited = {"from": list(updated.former_category_ids)}
        return ProductPayload(product=as_type(Product, updated.product), edited=edited)

    @mutation(role=MERCHANT, description="Deletes a product, if its nonce is still the same. For a MERCHANT.")
    async def delete_product(self, info: Info, input: DeleteProductInput) -> DeleteProductResult | None:
        categories = await product_deletions.delete_product(
            info.context.db,
            info.context.served.attachments,
            sku=Kind.key_in(info.context, "Product", input.id),
            nonce=input.nonce,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return DeletedPayload.of(input.id, CATEGORY.name, categories)
