"""What the tests that run on every domain need to know of reviews."""

from datetime import UTC, datetime
from typing import Any

from portico.testing import Given, Kit, Left, fails_with

CREATE = """mutation ($sku: String!) { createProduct(input: { sku: $sku, type: "Book", title: "A book",
  pricing: { list: { amount: 100 }, retail: { amount: 100 } } }) { ... on ProductPayload { product { id nonce } } } }"""
REVIEW = {"stars": 5, "text": "Read it."}
NOWHERE = {"productId": "none", **REVIEW}


async def create_product(gateway: Any, sku: str = "book") -> Any:
    return (await gateway.data(CREATE, {"sku": sku}))["createProduct"]["product"]


async def two_reviews(gateway: Any) -> tuple[Given, Given]:
    one, other = [{"productId": (await create_product(gateway, sku))["id"], **REVIEW} for sku in ("one", "other")]
    return one, other


async def two_moderations(gateway: Any) -> tuple[Given, Given]:
    made = [await KIT.call(gateway, "reviewProduct", given) for given in await two_reviews(gateway)]
    one, other = ({"id": payload["review"]["id"], "hidden": True} for payload in made)
    return one, other


async def unfinished_review(gateway: Any) -> Left:
    await two_moderations(gateway)
    dirty = {"by": "r-0123456789abcdef0123456789abcdef", "at": datetime(2020, 1, 1, tzinfo=UTC)}
    await gateway.db["reviews"].update_one({"sku": "one"}, {"$set": {"dirty": dirty}})
    return "reviews", {"dirty.by": dirty["by"]}


KIT = Kit(
    adds=("reviewProduct", "Review"),
    mutations={
        "reviewProduct": "... on ReviewPayload { review { id } }",
        "moderateReview": "... on ReviewPayload { review { id } }",
    },
    inputs={"reviewProduct": two_reviews, "moderateReview": two_moderations},
    failures={
        ("reviewProduct", "NotFound"): fails_with(lambda: NOWHERE),
        ("moderateReview", "NotFound"): fails_with(lambda: {"id": "none", "hidden": True}),
    },
    unfailed={
        ("reviewProduct", "InvalidInput"),
        ("reviewProduct", "AlreadyReviewed"),
        ("moderateReview", "InvalidInput"),
        ("moderateReview", "AlreadyReviewed"),
    },
    leftovers={"finish-reviews": (unfinished_review,)},
    scattered={"find reviews dirty.at", "aggregate reviews "},
)
