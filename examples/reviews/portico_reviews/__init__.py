"""Product reviews: their GraphQL schema, and the declaration of the domain."""

from collections.abc import AsyncIterator
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any, cast

import strawberry

import portico
from portico import Info, InvalidInput, NotFound, Role, imports, schema
from portico.schema import After, Author, Connection, First
from portico.store import Listing, Sort

from . import store

REVIEW = schema.Kind.of(
    "Review",
    store.REVIEWS,
    reads=("hidden",),
    visible_to=lambda review, context: not review["hidden"] or context.has_role(Role.EDITOR),
)
PAGES = schema.Paged.of(REVIEW, store.REVIEWS, counts=lambda _context, wanted: not wanted["hidden"])


@strawberry.type(description="What a buyer says about a product.")
class Review(schema.Node):
    id: strawberry.ID = schema.node_id("Review", "_id")
    stars: int = schema.stored(description="1 to 5.")
    text: str = schema.stored(description="Plain text.")
    posted: datetime = schema.stored(description="When it was posted.")
    buyer: Author = schema.stored(description="Who posted it.")


@strawberry.type(description="The rating of a product: a summary of its reviews.")
class Rating:
    count: int = schema.stored(default=0, description="How many reviews there are.")
    average: float | None = schema.stored(description="1 to 5, or null if there are no reviews.")


@strawberry.type
class ProductReviews:
    @schema.reads("_id", description="A summary of the reviews.")
    @staticmethod
    async def rating(root: strawberry.Parent[Any], info: Info) -> Rating:
        return cast("Rating", await schema.load_one(info, store.RATINGS, root["_id"]) or {})

    @schema.reads("_id", description="The reviews, latest first.")
    @staticmethod
    async def reviews(
        root: strawberry.Parent[Any], info: Info, first: First = 10, after: After = None
    ) -> Connection[Review]:
        shown = Listing({"product": root["_id"], "hidden": False}, Sort((("posted", -1),)))
        return Connection(page=await PAGES.page(info, shown, first=first, default=10, after=after))


@strawberry.input(description="A review by the viewer.")
class ReviewProductInput:
    product_id: strawberry.ID = strawberry.field(description="The product.")
    stars: int = strawberry.field(description="1 to 5.")
    text: str = strawberry.field(description="Plain text, up to 5,000 characters.")
    idempotency_key: str | None = schema.idempotency_key()


@strawberry.input(description="Hides or shows a review.")
class ModerateReviewInput:
    id: strawberry.ID = strawberry.field(description="The review.")
    hidden: bool = strawberry.field(description="True hides the review; false shows it again.")
    idempotency_key: str | None = schema.idempotency_key()


@strawberry.type(description="The review after the write.")
class ReviewPayload:
    review: Review = strawberry.field(description="The review.")


Result = Annotated[
    ReviewPayload | store.AlreadyReviewed | NotFound | InvalidInput,
    strawberry.union("ReviewResult", description="The result of posting or moderating a review."),
]


@strawberry.type
class ReviewMutation:
    @schema.mutation(description="Reviews a product, once per caller. Requires a token.")
    async def review_product(self, info: Info, input: ReviewProductInput) -> Result | None:
        hosts, buyer = info.context.served.hosts, info.context.require_caller().author
        sku = schema.Kind.key_in(info.context, "Product", input.product_id)
        given = {"sku": sku, "buyer": buyer, "stars": input.stars, "text": input.text}
        posted = await store.post_review(info.context.db, hosts, **given, **info.context.operation)
        return ReviewPayload(review=cast("Review", posted))

    @schema.mutation(role=Role.EDITOR, description="Hides a review, or shows it again. Requires the role EDITOR.")
    async def moderate_review(self, info: Info, input: ModerateReviewInput) -> Result | None:
        review = await schema.find_visible(info.context, "Review", input.id)
        hosts = info.context.served.hosts
        moderated = await store.moderate(info.context.db, hosts, review, hidden=input.hidden, **info.context.operation)
        return ReviewPayload(review=cast("Review", moderated))


@strawberry.type
class ReviewSubscription:
    @strawberry.subscription(description="Each review of a product as it is posted, from now on.")
    async def review_posted(
        self, info: Info, product_id: Annotated[strawberry.ID, schema.described("The product.")]
    ) -> AsyncIterator[Review]:
        product = await schema.find_visible(info.context, "Product", product_id)
        topic = ("reviews", product["sku"])
        return cast("AsyncIterator[Review]", await schema.occurrences(info.context, topic, REVIEW))


DOMAIN = portico.Domain(
    name="reviews",
    about="Reviews of products, and their average.",
    needs=("catalog",),
    collections=(store.REVIEWS, store.RATINGS),
    attachments=(store.OWNED,),
    jobs=(store.RATING.job("finish-reviews"),),
    invariants=(store.RATING.invariant("Every rating counts the reviews of its product that are shown."),),
    events=(store.POSTED,),
    kinds=(REVIEW,),
    pages=(PAGES,),
    mutations=(ReviewMutation,),
    subscriptions=(ReviewSubscription,),
    extensions={"Product": (ProductReviews,)},
    importers={
        "reviews": imports.Importer(
            store.read_review, itemgetter("sku", "buyer"), store.put_review, is_single=True, has_resources=True
        )
    },
)
