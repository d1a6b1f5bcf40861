"""Reviews and ratings in MongoDB.

reviews   _id · sku, product (the key and the `_id` of the product) · buyer {id, name} · stars · text · posted ·
          hidden · dirty, until the rating includes the latest change of the review · applied
ratings   _id (the product's) · sku · count and average of the reviews that are shown · revision
"""

from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError

import portico
from portico import InvalidInput, NotFound, imports, writes
from portico.imports import fields
from portico.schema import failure
from portico.store import ChangeSource, CollectionSpec, Database, Document, Event, texts
from portico.writes import Hosts, marks

REVIEWS: CollectionSpec[Document] = CollectionSpec(
    "reviews",
    shard_key={"product": 1},
    indexes=[
        IndexModel([("product", 1), ("buyer.id", 1)], unique=True),
        IndexModel([("product", 1), ("hidden", 1), ("posted", -1), ("_id", -1)]),
        IndexModel([("sku", 1)]),
        writes.RollUp.INDEX,
    ],
)
RATINGS = CollectionSpec("ratings", shard_key={"_id": "hashed"}, indexes=[IndexModel([("sku", 1)])])
OWNED = writes.Attachments.Owned("Product", ((REVIEWS, "sku", "product"), (RATINGS, "sku", "_id")))
POSTED = ChangeSource.inserts(REVIEWS, ("sku",), lambda one: Event(("reviews", one["sku"]), one["_id"]))


async def _count(db: Database, product: ObjectId) -> Document | None:
    count, average = {"$sum": {"$cond": ["$hidden", 0, 1]}}, {"$avg": {"$cond": ["$hidden", None, "$stars"]}}
    group = {"$group": {"_id": None, "count": count, "average": average, "sku": {"$first": "$sku"}}}
    stages: list[Document] = [{"$match": {"product": product}}, group, {"$unset": "_id"}]
    return next(iter(await (await db[REVIEWS.name].aggregate(stages)).to_list()), None)


RATING = writes.RollUp(REVIEWS, "product", RATINGS, compute=_count, then=OWNED.after_write(REVIEWS))


@failure("The viewer has already reviewed the product.")
class AlreadyReviewed(portico.DomainError):
    """The buyer has already reviewed the product."""


async def post_review(
    db: Database, hosts: Hosts, *, sku: str, buyer: Document, stars: float, text: str, now: datetime, operation_id: str
) -> Document:
    """Posts a review. Raises NotFound (product), InvalidInput, AlreadyReviewed."""
    with InvalidInput.collect() as check:
        if stars not in range(1, 6):
            message = f"`stars` must be a whole number from 1 to 5; got {stars}."
            check.refuse(InvalidInput(message, "stars", code=InvalidInput.OUT_OF_RANGE, least=1, most=5))
        text = check(texts.require_text, text, "text", longest=5_000)
    product = await hosts.find_one(db, "Product", sku)
    if product is None:
        raise NotFound("Product", sku)
    review = {"_id": marks.derived_id(operation_id, "review"), "sku": sku, "product": product["_id"], "buyer": buyer}
    review |= {"stars": int(stars), "text": text, "posted": now, "hidden": False, **RATING.mark(operation_id, now)}
    try:
        review = await REVIEWS.create_once(db, review)
    except DuplicateKeyError:
        raise AlreadyReviewed("You have already reviewed this product.") from None
    await RATING.settle(db, hosts, review)
    return review


async def moderate(
    db: Database, hosts: Hosts, review: Document, *, hidden: bool, now: datetime, operation_id: str
) -> Document:
    """Hides a review, or shows it again. Raises NotFound."""
    key = {name: review[name] for name in ("_id", "product")}
    change = {"$set": {"hidden": hidden, **RATING.mark(operation_id, now)}, **marks.mark_applied(operation_id)}
    await db[REVIEWS.name].update_one({**key, **marks.not_applied(operation_id)}, change)
    found = await db[REVIEWS.name].find_one(key)
    if found is None:
        raise NotFound("Review", str(review["_id"]))
    await RATING.settle(db, hosts, found)
    await marks.trim_marks(db, REVIEWS, found)
    return found


def read_review(given: Any) -> Document:
    """Reads a record to import: {"product": a SKU, "buyer", "stars", "text"}. Raises InvalidInput."""
    record = fields.object_of(given, {"product", "buyer", "stars", "text"})
    sku, buyer, text = (fields.text_at(record, name) for name in ("product", "buyer", "text"))
    return {"sku": sku, "buyer": buyer, "stars": fields.as_number(record.get("stars"), "stars"), "text": text}


async def put_review(db: Database, record: Document, *, now: datetime, resources: portico.Resources) -> imports.Outcome:
    """Posts an imported review, unless its buyer has already reviewed the product."""
    given = record | {"buyer": {"id": record["buyer"], "name": record["buyer"]}}
    try:
        await post_review(db, resources.of(Hosts), **given, now=now, operation_id=marks.random_operation_id())
    except AlreadyReviewed:
        return "unchanged"
    return "created"
