"""The products of a category. Products name their categories, so the field that leads back is an extension."""

from collections.abc import Sequence
from typing import Annotated

import strawberry

from portico.loaders.catalog import categories as loaders
from portico.resolvers.catalog.categories import CategoryDocument
from portico.resolvers.catalog.product_search import Within
from portico.resolvers.catalog.settings import CatalogSettings
from portico.resolvers.documents import DocumentId
from portico.schema.context import Info
from portico.schema.fields import reads
from portico.schema.inputs import After, Before, First, Last, Span, described

from .products import DEFAULT_PRODUCTS, WEIGHTS_OF_FILTER, Filter, Order, ProductConnection, ProductSort, product_page


@strawberry.type
class CategoryProducts:
    @reads(
        "_id",
        weights=WEIGHTS_OF_FILTER,
        description="Products in this category and, unless you turn it off, anywhere below it.",
    )
    @staticmethod
    async def products(
        root: strawberry.Parent[CategoryDocument],
        info: Info,
        filter: Filter = None,
        sort: Order = ProductSort.NEWEST,
        include_descendants: Annotated[bool, described("Whether to include products of all categories below.")] = True,
        first: First = DEFAULT_PRODUCTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> ProductConnection:
        ids: Sequence[DocumentId] = [root["_id"]]
        if include_descendants:
            most = info.context.resources.of(CatalogSettings).max_counted
            below = info.context.loader("subtrees", lambda: loaders.subtrees(info.context.reading, most=most))
            claim = await below.load(root["_id"])
            assert claim is not None
            ids = claim()
        within = Within(root["_id"], include_descendants, ids)
        return await product_page(info, filter, sort, span=Span(first, after, last, before), within=within)
