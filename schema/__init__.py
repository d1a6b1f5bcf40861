"""What clients see."""

from __future__ import annotations

import functools
from typing import Annotated

import strawberry
from graphql import GraphQLError
from strawberry.schema.config import StrawberryConfig

from portico.schema.accounts.accounts import AccountMutation
from portico.schema.catalog.categories import CategoryMutation, CategoryQuery
from portico.schema.catalog.product_mutations import ProductMutation
from portico.schema.catalog.products import AudioAlbum, Film, GeneralProduct, ProductQuery
from portico.schema.comments.events import CommentSubscription
from portico.schema.comments.posting import CommentMutation
from portico.schema.content.creation import ContentMutation
from portico.schema.content.edits import ContentEditMutation
from portico.schema.content.nodes import BlogEntry, ContentQuery, Page, Section
from portico.schema.content.photos import Photo, PhotoMutation
from portico.schema.shop.carts import CartMutation, CartQuery
from portico.schema.shop.orders import OrderMutation
from portico.schema.shop.stock import StockMutation

from .context import Info, core
from .errors import HANDLERS
from .fields import costs
from .inputs import described
from .installation import install
from .kept import require_keepable
from .nodes import MAX_NODES, Node, find_node
from .scalars import SCALARS
from .viewer import ViewerQuery


@strawberry.type(description="Reading.")
class Query(ViewerQuery, CategoryQuery, ProductQuery, CartQuery, ContentQuery):
    @strawberry.field(description="The object with this id, of whatever type.")
    async def node(
        self, info: Info, id: Annotated[strawberry.ID, described("What the object has for `id`.")]
    ) -> Node | None:
        return await find_node(core(info), id)  # type: ignore[return-value]

    @strawberry.field(
        description="At most 100 ids; the answers stand in the order of the ids, null where there is none.",
        metadata=costs(length=MAX_NODES),
    )
    async def nodes(
        self, info: Info, ids: Annotated[list[strawberry.ID], described("At most 100.")]
    ) -> list[Node | None]:
        if len(ids) > MAX_NODES:
            raise GraphQLError(
                f"There are {len(ids)} ids; {MAX_NODES} are allowed.", extensions={"code": "BAD_USER_INPUT"}
            )
        # graphql-core awaits the items side by side, so that their loaders batch them.
        return [find_node(core(info), global_id) for global_id in ids]  # type: ignore[misc]


@strawberry.type(
    description="Writing. A field is null only after a fault, which is in `errors`; "
    "other fields of the same request stand."
)
class Mutation(
    CategoryMutation,
    ProductMutation,
    StockMutation,
    CartMutation,
    OrderMutation,
    AccountMutation,
    ContentMutation,
    ContentEditMutation,
    CommentMutation,
    PhotoMutation,
):
    pass


@strawberry.type(description="What happens, as it happens. An operation has one field, and an answer for each event.")
class Subscription(CommentSubscription):
    pass


@functools.cache
def create_schema() -> strawberry.Schema:
    """The whole schema, its document-backed fields ready to read documents. Everybody is given the same one.

    Raises:   NotKeepable (a mutation has an answer that cannot be kept for its idempotency key).
    """
    schema = strawberry.Schema(
        query=Query,
        mutation=Mutation,
        subscription=Subscription,
        types=[AudioAlbum, Film, GeneralProduct, Section, Page, BlogEntry, Photo],
        exception_handlers=HANDLERS,
        config=StrawberryConfig(scalar_map=SCALARS),
    )
    install(schema)
    require_keepable(schema)
    return schema
