"""The slugs of products, each of which belongs to one product.

`products` is sharded by SKU, so no index of it can keep a second key unique. Each slug is therefore a document of a
collection of its own, with the slug as `_id`, sharded by its hash. It says which product has the slug. So reads and
writes of a slug go to two shards.

1. A write claims the slug: it inserts its document with a time, `at`, which marks it as in flight. If the document is
   there and names another product, the slug is taken. A claim of the same product's own slug renews the mark. If the
   write gives up a slug, or removes the product, it marks that document, too.
2. It inserts, changes or removes the product. This decides. An edit has first marked the product `incoming`, and its
   update matches only while the mark is there.
3. It removes the mark of the slug that the product has now, and the document of the one that it had.

`settle_slugs` does step 3 for marks that are older than five seconds. It first removes old `incoming` marks from the
product, so a stalled edit cannot decide any more and starts again with a new claim. Then it reads the product. It
leaves products that are being created or deleted to the job that settles these writes. Each claim has a new random key,
`by`, and a write or the job changes a document only while it has the key that it has made or read. So nobody removes or
confirms a claim that another write has renewed. Nothing stops a stalled insert of a new product, so its claim stays for
a minute. A creation that takes longer loses its claim. It then claims the slug again, and removes the product if the
slug is taken by now.

A claim also names the operation that creates many products at once. If an import crashes between the steps 1 and 2, the
next import finds claims for products that are not there. It goes on with the same operation if the claim is older than
five seconds, so the product gets the id that the claim has.

Without a mark, a document is decided: its product has the slug. With a mark, reads ask the product. An edit that does
not decide removes the documents that it has inserted, if no other write has renewed their claims. The job settles the
others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NotRequired
from uuid import uuid4

from bson import ObjectId
from pymongo import ASCENDING, DeleteOne, IndexModel, UpdateOne
from pymongo.errors import BulkWriteError

from portico.resolvers.declarations import Job
from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.import_outcomes import rejected_rows
from portico.resolvers.problems import Problem, mend_now
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes import idempotency, intents
from portico.resolvers.writes.sweeps import sweep

from .product_rules import DescribedProduct
from .products import PRODUCTS, ProductDocument


class SlugDocument(TypedDict):
    """A slug. Its `_id` is the slug itself."""

    _id: str
    # The product that has it, or is about to.
    sku: str
    product: ObjectId
    # The random key of its last claim.
    by: str
    # Since when a write that claims it, or gives it up, is in flight.
    at: NotRequired[datetime]
    # While that creates many products: its id.
    creation: NotRequired[str]


SLUGS = CollectionSpec(
    "product_slugs",
    document=SlugDocument,
    # The `_id` is the slug. Products are sharded by SKU, so MongoDB could not keep their slugs unique.
    shard_key={"_id": "hashed"},
    indexes=[IndexModel([("at", ASCENDING)], sparse=True)],
)
# Ends a claim: the product has the slug.
_DECIDED: Document = {"$unset": {"at": "", "creation": ""}}
_PRODUCT = Problem.named("product", "sku")
_SLUG = Problem.named("slug")


async def find_skus(db: Database, slugs: Sequence[str]) -> dict[str, str]:
    """Returns the SKU of the product with each of these slugs."""
    found = await SLUGS.of(db).find({"_id": {"$in": list(slugs)}}).to_list()
    unsure = [one for one in found if "at" in one]
    having: set[tuple[str, Any]] = set()
    if unsure:
        query = {"sku": {"$in": [one["sku"] for one in unsure]}, "slug": {"$in": [one["_id"] for one in unsure]}}
        read = await PRODUCTS.of(db).find(query, {"sku": 1, "slug": 1}).to_list()
        having = {(product["sku"], product.get("slug")) for product in read}
    return {one["_id"]: one["sku"] for one in found if "at" not in one or (one["sku"], one["_id"]) in having}


class Claims:
    """The slugs that one write claims and gives up. See the module."""

    def __init__(self, db: Database, now: datetime, *, creation: str | None = None) -> None:
        """`creation` is the id of the operation, if it creates many products."""
        self._slugs = SLUGS.of(db)
        # Differs from the key of every other attempt, also of the same call.
        self.key = uuid4().hex
        self._now = now
        self._creation = creation
        self._claimed: list[str] = []
        # Those whose documents this write has inserted.
        self._inserted: set[str] = set()
        self._given_up: list[str] = []

    async def mark(self, claimed: Iterable[ProductDocument] = (), given_up: Iterable[ProductDocument] = ()) -> set[str]:
        """Claims the slugs of products, and marks those that products give up. Returns the SKUs whose slug is taken."""
        claims = [product for product in claimed if product.get("slug") is not None]
        leaving = [product for product in given_up if product.get("slug") is not None]
        by: Document = {"by": self.key}
        claim = {"$set": by if self._creation is None else by | {"creation": self._creation}, "$max": {"at": self._now}}
        leave = {"$set": by, "$max": {"at": self._now}, "$unset": {"creation": ""}}
        marks = [UpdateOne(_document_of(product), claim, upsert=True) for product in claims]
        marks += [UpdateOne(_document_of(product), leave) for product in leaving]
        rejected = await self._send(marks)
        # An upsert that meets another one for the same product is rejected, too. The next one finds its document.
        still = await self._send([marks[number] for number in rejected])
        taken = {claims[rejected[number]]["sku"] for number in still}
        self._claimed = [str(product.get("slug")) for product in claims if product["sku"] not in taken]
        self._given_up = [str(product.get("slug")) for product in leaving]
        return taken

    async def _send(self, marks: Sequence[UpdateOne]) -> list[int]:
        """Returns the numbers of those that are rejected."""
        if marks:
            try:
                done = await self._slugs.bulk_write(marks, ordered=False)
                self._inserted |= set((done.upserted_ids or {}).values())
            except BulkWriteError as error:
                self._inserted |= {row["_id"] for row in error.details.get("upserted", ())}
                return [row["index"] for row in rejected_rows(error)]
        return []

    async def confirm(self, created: Sequence[ProductDocument]) -> set[str]:
        """Confirms the slugs of created products. Idempotent. Returns the SKUs of those that have lost their slug.

        A slug that this write has not claimed, or that another one has claimed or given up since, is left to that
        write and the job. A product that has lost its claim claims the slug again, and leaves it to the job.
        """
        having = [product for product in created if product.get("slug") is not None]
        mine = [{**_document_of(product), "by": self.key} for product in having if product.get("slug") in self._claimed]
        confirmed = 0
        if mine:
            marks = [UpdateOne(document, _DECIDED) for document in mine]
            confirmed = (await self._slugs.bulk_write(marks, ordered=False)).matched_count
        if confirmed == len(having):
            return set()
        found = await self._slugs.find({"_id": {"$in": [product.get("slug") for product in having]}}).to_list()
        known = {(one["_id"], one["product"]) for one in found}
        # The product may have been deleted. So nobody goes on with its creation.
        self._creation = None
        return await self.mark([one for one in having if (one.get("slug"), one["_id"]) not in known])

    async def settle(self) -> None:
        """Ends the write after it was decided: the claimed slugs belong to their products, the others to nobody."""
        await self._end(kept=self._claimed, removed=self._given_up)

    async def withdraw(self, slugs: Iterable[str | None]) -> None:
        """Frees claimed slugs of products that were not created."""
        await self._end(removed=[slug for slug in slugs if slug in self._claimed])

    async def abandon(self) -> None:
        """Ends an edit that has not decided. What may be claimed by others, too, is left to the job."""
        await self._end(removed=[slug for slug in self._claimed if slug in self._inserted])

    async def _end(self, *, kept: Iterable[str] = (), removed: Iterable[str | None] = ()) -> None:
        writes: list[UpdateOne | DeleteOne] = [UpdateOne({"_id": slug, "by": self.key}, _DECIDED) for slug in kept]
        writes += [DeleteOne({"_id": slug, "by": self.key}) for slug in removed]
        if writes:
            await self._slugs.bulk_write(writes, ordered=False)


async def find_begun(db: Database, taken: Sequence[DescribedProduct], now: datetime) -> dict[str, str | None]:
    """Returns the SKUs of products whose slug is claimed for the same SKU by a creation that has not ended.

    Returns:  for each SKU, the id of an operation that creates many products, if it is older than five seconds; None
              for another creation, and for one that may still go on.
    """
    slugs = {product["sku"]: product.get("slug") for product in taken}
    found = await SLUGS.of(db).find({"_id": {"$in": list(slugs.values())}, "at": {"$ne": None}}).to_list()
    own = [one for one in found if slugs.get(one["sku"]) == one["_id"]]
    return {one["sku"]: one.get("creation") if one["at"] <= now - Job.STALE_AFTER else None for one in own}


def _document_of(product: ProductDocument) -> Document:
    return {"_id": product.get("slug"), "sku": product["sku"], "product": product["_id"]}


async def settle_slugs(db: Database, *, creation: str, now: datetime) -> int:
    """Settles the slugs whose write has been in flight for more than five seconds. Returns how many.

    Args:     creation: the kind of the intents of products that are being created.
    """
    before = now - Job.STALE_AFTER

    created: set[str] | None = None

    async def settle(found: SlugDocument) -> int:
        nonlocal created
        if created is None:
            created = await intents.announced(db, kind=creation)
        if found["sku"] in created:
            return 0
        own = {"sku": found["sku"], "_id": found["product"]}
        await db[PRODUCTS.name].update_one(own, {"$pull": {"incoming": {"at": {"$lte": before}}}})
        product = await PRODUCTS.of(db).find_one(own, {"slug": 1, "deleting": 1})
        mine = {name: found[name] for name in ("_id", "by", "at")}
        if product is None and found["at"] > now - 2 * idempotency.LEASE:
            # It may be about to be inserted.
            return 0
        if product is not None and "deleting" in product:
            return 0
        if product is not None and product.get("slug") == found["_id"]:
            await db[SLUGS.name].update_one(mine, _DECIDED)
        else:
            await db[SLUGS.name].delete_one(mine)
        return 1

    return await sweep(db, SLUGS, {"at": {"$lte": before}}, settle)


async def find_wrong_slugs(db: Database) -> AsyncIterator[Problem]:
    """Yields products whose slug is not theirs, and slugs whose product does not have them."""
    products = PRODUCTS.of(db).find({"schema_version": PRODUCTS.version}, {"sku": 1, "slug": 1, "nonce": 1})
    async for problem in Problem.all_in(products, partial(_without_document, db), _PRODUCT):
        yield problem
    async for problem in Problem.all_in(
        SLUGS.of(db).find({"_id": {"$gte": ""}, "at": None}), partial(_without_product, db), _SLUG
    ):
        yield problem


async def _without_document(db: Database, batch: list[ProductDocument]) -> AsyncIterator[Problem]:
    having = [product for product in batch if product.get("slug") is not None]
    found = await SLUGS.of(db).find({"_id": {"$in": [product.get("slug") for product in having]}}).to_list()
    known = {(one["_id"], one["sku"], one["product"]) for one in found}
    for product in having:
        if (product.get("slug"), product["sku"], product["_id"]) in known:
            continue
        same = {"sku": product["sku"], "_id": product["_id"], "slug": product.get("slug")}
        # It may have been edited or removed since it was read.
        if await PRODUCTS.of(db).find_one(same, {"_id": 1}) is not None:
            repair = partial(mend_now, _mend_product, db, product)
            yield Problem(_PRODUCT(product), "its slug does not belong to it", repair)


async def _mend_product(db: Database, product: ProductDocument, *, now: datetime) -> None:
    """Claims its slug for the product, to be settled by the job. If another product has it, the product loses it."""
    if await Claims(db, now).mark([product]):
        same = {"sku": product["sku"], "_id": product["_id"], "slug": product.get("slug")}
        await db[PRODUCTS.name].update_one(same, {"$set": {"slug": None}})


async def _without_product(db: Database, batch: list[SlugDocument]) -> AsyncIterator[Problem]:
    query = {"sku": {"$in": [one["sku"] for one in batch]}}
    read = await PRODUCTS.of(db).find(query, {"sku": 1, "slug": 1}).to_list()
    known = {(product["sku"], product["_id"], product.get("slug")) for product in read}
    for one in batch:
        same = {"_id": one["_id"], "by": one["by"], "at": None}
        is_known = (one["sku"], one["product"], one["_id"]) in known
        if not is_known and await SLUGS.of(db).find_one(same, {"_id": 1}) is not None:
            yield Problem(_SLUG(one), "no product has it", partial(db[SLUGS.name].delete_one, same))
