"""The stock of products, and restocks by merchants."""

from typing import Annotated

import strawberry

from portico.resolvers.catalog.products import ProductDocument
from portico.resolvers.shop import stock, stock_reads
from portico.resolvers.shop.refusals import InadequateInventory
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.catalog.products import Product
from portico.schema.context import Info
from portico.schema.errors import InvalidInput, NotFound
from portico.schema.fields import Source, as_type, reads, stored
from portico.schema.inputs import idempotency_key
from portico.schema.mutations import mutation
from portico.schema.reading import load_one


@strawberry.type(
    description="The units of a SKU. Reservations and sales move units between the counts. The sum of the counts "
    "changes only when the product is restocked or deleted."
)
class Stock:
    available: int = stored(default=0, description="Units that can be added to carts.")
    reserved: int = stored(default=0, description="Units in carts that are active, being paid for, or expiring.")
    sold: int = stored(default=0, description="Units in orders.")


@strawberry.type
class ProductStock:
    """The fields that the shop adds to a product."""

    @reads("sku", description="The units of the product.")
    @staticmethod
    async def stock(root: strawberry.Parent[ProductDocument], info: Info) -> Stock:
        found: Source = await load_one(info, stock_reads.find_stocks, root["sku"]) or {}
        return as_type(Stock, found)


@strawberry.input(description="Units to add to the stock.")
class RestockInput:
    sku: str = strawberry.field(description="The product.")
    quantity: int = strawberry.field(
        description="Added to the available units. Can be negative, down to zero available units."
    )
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.type(description="The product after a change of its stock.")
class StockPayload:
    product: Product = strawberry.field(description="The current product.")


RestockResult = Annotated[
    StockPayload | InadequateInventory | NotFound | InvalidInput,
    strawberry.union("RestockResult", description="The result of a restock."),
]


@strawberry.type
class StockMutation:
    @mutation(role=MERCHANT, description="Changes how many units of a SKU are available. For a MERCHANT.")
    async def restock(self, info: Info, input: RestockInput) -> RestockResult | None:
        product = await stock.restock(
            info.context.db,
            sku=input.sku,
            quantity=input.quantity,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return StockPayload(product=as_type(Product, product))
