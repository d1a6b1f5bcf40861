"""Writes to the product catalog.

Products and categories stay consistent as `category_edits` describes. The writer of a product inserts or marks it, then
checks whether the categories exist. The deletion of a category marks it, then checks for products.

A product without categories is one insert. A product with categories takes three steps: a record in `intents`, the
insert, and the confirmation. The confirmation checks that the categories still exist; if one does not, the product is
deleted again. An edit is one update, guarded by the nonce. If it adds categories, the product is first marked
`incoming` with their ids. `product_slugs` describes what writes do to slugs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo.errors import BulkWriteError, DuplicateKeyError

from portico.resolvers.catalog.refusals import ProductEditConflict, SkuTaken
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, DomainError, NotFound, SlugTaken
from portico.resolvers.import_outcomes import refused_row, rejected_rows
from portico.resolvers.writes import idempotency, intents
from portico.resolvers.writes.marks import (
    derived_id,
    derived_nonce,
    mark_applied,
    random_operation_id,
    trim_marks,
    was_applied,
)
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.sweeps import each

from .categories import CategoryDocument, find_usable, require_usable
from .product_rules import DescribedProduct, ProductFields, document_of
from .product_slugs import Claims, find_begun
from .product_terms import words_in
from .products import PRODUCTS, ProductDocument, find_by_sku, find_by_skus
from .vocabulary import store_words

# An upgrade or a job can change the product between the two steps of an edit without changing the nonce.
_EDIT_ATTEMPTS = 5
# The kind of a creation's intent; its keys are SKUs.
CREATION = "product-creation"
# What `_undo_if_misplaced` needs.
_CREATED = {"sku": 1, "slug": 1, "category_ids": 1}

Change = Callable[[ProductDocument], ProductDocument]


async def create_product(db: Database, *, fields: ProductFields, now: datetime, operation_id: str) -> ProductDocument:
    """Creates a product.

    Returns:  the product.
    Raises:   InvalidInput, NotFound (a category), SkuTaken, SlugTaken.
    Writes:   intents, products: an insert, and its removal if a category was deleted in the meantime. A product without
              categories needs one insert. With a slug, product_slugs before and after it.
    """
    document = new_document(fields, operation_id)
    sku, categories, claims = document["sku"], document["category_ids"], Claims(db, now)
    find = partial(_created_before, db, document)
    mine = await idempotency.find_created(db, operation_id, find, NotFound("Product", sku))
    if mine is None:
        await require_usable(db, categories)
        await store_words(db, words_in(document))
        if categories:
            await intents.announce(db, operation_id, kind=CREATION, keys=[sku], now=now)
        try:
            document = await _insert(db, document, claims)
        except DomainError:
            await intents.withdraw(db, operation_id)
            await claims.withdraw([document.get("slug")])
            raise
    document = mine or document
    await idempotency.note(db, operation_id, done=True)
    if categories:
        missing = await confirm_created(db, operation_id, [sku], now=now)
        if sku in missing:
            raise NotFound("Category", str(missing[sku]))
    refused = await _confirm_slugs(db, [document], claims)
    if sku in refused:
        raise refused[sku]
    return document


async def _insert(db: Database, document: ProductDocument, claims: Claims) -> ProductDocument:
    """Claims the slug of a new product and inserts it. Returns it, or what another call of the operation has inserted.

    Raises:   SkuTaken, SlugTaken. If both are taken, the SKU is the reason.
    """
    sku = document["sku"]
    taken: DomainError = SlugTaken(str(document.get("slug")))
    if not await claims.mark([document]):
        try:
            await PRODUCTS.of(db).insert_one(document)
        except DuplicateKeyError:
            taken = SkuTaken(sku)
        else:
            return document
    found = await find_by_sku(db, sku)
    if found is None:
        raise taken
    if found["_id"] != document["_id"]:
        raise SkuTaken(sku)
    return found


async def _confirm_slugs(db: Database, created: Sequence[ProductDocument], claims: Claims) -> dict[str, DomainError]:
    """Confirms the slugs of created products, and removes those that have lost theirs. Returns why, by SKU.

    A product that was renamed or deleted since was created.
    """
    refused: dict[str, DomainError] = {}
    lost = await claims.confirm(created)
    for product in created:
        if product["sku"] in lost:
            guard = {key: product.get(key) for key in ("sku", "_id", "slug")}
            if (await db[PRODUCTS.name].delete_one(guard)).deleted_count:
                refused[product["sku"]] = SlugTaken(str(product.get("slug")))
    return refused


async def create_products(
    db: Database, described: Sequence[DescribedProduct], *, now: datetime, operation_id: str | None = None
) -> dict[str, DomainError]:
    """Creates many products at once. Goes on with what crashed calls have begun: see `product_slugs`.

    Args:     operation_id: of the crashed call.
    Returns:  why products were refused, by SKU: SkuTaken, SlugTaken, NotFound (a category), InvalidInput (the
              database), Conflict (somebody else may be creating it).
    Writes:   intents, product_slugs, products: one insert, and the removal of those with a category that was deleted in
              the meantime.
    """
    goes_on = operation_id is not None
    operation_id = operation_id or random_operation_id()
    documents = [created_by(operation_id, one) for one in described]
    skus = [document["sku"] for document in documents]
    refused: dict[str, DomainError] = {}
    await store_words(db, words_in(*documents))
    await intents.announce(db, operation_id, kind=CREATION, keys=skus, now=now, goes_on=goes_on)
    claims = Claims(db, now, creation=operation_id)
    taken = await claims.mark(documents)
    if taken:
        refused |= await _go_on(db, [one for one in described if one["sku"] in taken], now)
    documents = [document for document in documents if document["sku"] not in taken]
    refused |= await _insert_all(db, documents)
    await claims.withdraw([document.get("slug") for document in documents if document["sku"] in refused])
    if goes_on:
        # The job withdraws the intent: the other call may have created more products, or may be about to.
        undone = await _undo_misplaced(db, operation_id, skus, now)
    else:
        named = {key for document in documents for key in document["category_ids"]}
        undone = await confirm_created(db, operation_id, skus, now=now, named=named, at=now)
    refused |= {sku: NotFound("Category", str(gone)) for sku, gone in undone.items()}
    return refused | await _confirm_slugs(db, [one for one in documents if one["sku"] not in refused], claims)


async def _go_on(db: Database, taken: Sequence[DescribedProduct], now: datetime) -> dict[str, DomainError]:
    """Creates products whose slugs a crashed call has claimed for them. Returns why others were refused."""
    begun = await find_begun(db, taken, now)
    refused: dict[str, DomainError] = {one["sku"]: SlugTaken(str(one.get("slug"))) for one in taken}
    refused |= {sku: Conflict("Somebody else is creating the product. Try again.") for sku in begun}
    for operation_id in set(filter(None, begun.values())):
        own = [one for one in taken if begun.get(one["sku"]) == operation_id]
        failed = await create_products(db, own, now=now, operation_id=operation_id)
        refused = {sku: why for sku, why in refused.items() if begun.get(sku) != operation_id} | failed
    return refused


async def _insert_all(db: Database, documents: Sequence[ProductDocument]) -> dict[str, DomainError]:
    """Inserts products. Returns why others were refused; one that the same operation has inserted is not."""
    try:
        if documents:
            await PRODUCTS.of(db).insert_many(documents, ordered=False)
    except BulkWriteError as error:
        rows = {documents[row["index"]]["sku"]: row for row in rejected_rows(error)}
        found = await find_by_skus(db, list(rows))
        mine = {one["sku"] for one in documents if one["sku"] in found and found[one["sku"]]["_id"] == one["_id"]}
        return {sku: refused_row(row) or SkuTaken(sku) for sku, row in rows.items() if sku not in mine}
    return {}


async def _created_before(db: Database, document: ProductDocument) -> ProductDocument | None:
    found = await find_by_sku(db, document["sku"])
    return found if found is not None and found["_id"] == document["_id"] else None


def new_document(fields: ProductFields, operation_id: str) -> ProductDocument:
    """Returns the whole document of a new product. Raises InvalidInput."""
    return created_by(operation_id, document_of(fields))


def created_by(operation_id: str, described: DescribedProduct) -> ProductDocument:
    """Returns the described product with the id and the nonce that this operation derives."""
    created: Any = {
        "_id": derived_id(operation_id, described["sku"]),
        **described,
        "nonce": derived_nonce(operation_id, described["sku"]),
        "schema_version": PRODUCTS.version,
    }
    document: ProductDocument = created
    return document


async def confirm_created(
    db: Database,
    operation_id: str,
    skus: Sequence[str],
    *,
    now: datetime,
    named: set[ObjectId] | None = None,
    at: datetime | None = None,
) -> dict[str, ObjectId]:
    """Confirms the products that the operation has created, and removes those with a deleted category. Idempotent.

    Args:     named: all categories of the products, if the caller has just inserted them. If none is deleted, the
              products need not be read. An edit that has changed their categories since looks at these itself.
              at: when the operation was announced. If it goes on since, its intent stays.
    Returns:  the missing category of each removed product.
    Raises:   SweepFailed (products are damaged; the intent stays), after the others are settled.
    """
    is_right = named is not None and named <= (await find_usable(db, named, are_whole=False)).keys()
    undone = {} if is_right else await _undo_misplaced(db, operation_id, skus, now)
    await intents.withdraw(db, operation_id, at=at)
    return undone


async def has_created(db: Database, operation_id: str, skus: Sequence[str]) -> bool:
    """Returns whether a product that the operation was about to create exists."""
    mine = [derived_id(operation_id, sku) for sku in skus]
    return await PRODUCTS.of(db).find_one({"sku": {"$in": list(skus)}, "_id": {"$in": mine}}, {"_id": 1}) is not None


async def _undo_misplaced(db: Database, operation_id: str, skus: Sequence[str], now: datetime) -> dict[str, ObjectId]:
    """Removes created products with a deleted category. Raises SweepFailed after the others; Conflict."""
    mine = [derived_id(operation_id, sku) for sku in skus]
    query = {"sku": {"$in": list(skus)}, "_id": {"$in": mine}}
    created = await PRODUCTS.of(db).find(query, _CREATED).to_list()
    named = [product["category_ids"] for product in created if isinstance(product.get("category_ids"), list)]
    usable = await find_usable(db, {key for ids in named for key in ids if isinstance(key, ObjectId)})
    undone: dict[str, ObjectId] = {}

    async def undo(product: ProductDocument) -> int:
        gone = await _undo_if_misplaced(db, product, usable, now)
        if gone is not None:
            undone[product["sku"]] = gone
        return 1

    await each(created, undo)
    return undone


async def _undo_if_misplaced(
    db: Database, created: ProductDocument, usable: Mapping[ObjectId, CategoryDocument], now: datetime
) -> ObjectId | None:
    """Deletes the product if one of its categories was deleted. Returns that category."""
    product = created
    async for _ in attempts():
        gone: ObjectId | None = next((key for key in product["category_ids"] if key not in usable), None)
        if gone is None:
            return None
        if await remove(db, product, product, now):
            return gone
        # An edit has changed its categories in the meantime, or it was deleted.
        mine = {"sku": created["sku"], "_id": created["_id"]}
        found = await PRODUCTS.of(db).find_one(mine, _CREATED)
        if found is None:
            return None
        product, usable = found, await find_usable(db, found["category_ids"])
    raise Conflict("Other callers are changing the product. Try again.")


async def remove(db: Database, product: ProductDocument, guard: Mapping[str, Any], now: datetime) -> bool:
    """Removes the product, if it still matches, and frees its slug."""
    claims = Claims(db, now)
    await claims.mark(given_up=[product])
    is_removed = bool((await db[PRODUCTS.name].delete_one(guard)).deleted_count)
    if is_removed:
        await claims.settle()
    return is_removed


class Updated(NamedTuple):
    """An edited product, and the categories that the edit took it out of."""

    product: ProductDocument
    former_category_ids: Sequence[ObjectId]


async def update_product(
    db: Database, *, sku: str, nonce: str, change: Change, now: datetime, operation_id: str
) -> Updated:
    """Edits the product that the caller read under this nonce.

    Args:     change: returns the new document for the current one; raises InvalidInput.
    Returns:  the product, and the categories that it is no longer in.
    Raises:   InvalidInput, NotFound (product or category), SlugTaken, ProductEditConflict (with the current product).
    Writes:   products; one update guarded by the nonce. If it adds categories or changes the slug, a mark before it. If
              it changes the slug, product_slugs before and after it.
    """
    async for _ in attempts(_EDIT_ATTEMPTS):
        product = await _require(db, sku)
        if was_applied(product, operation_id):
            return Updated(product, (await idempotency.notes(db, operation_id)).get("former_categories", ()))
        if product["nonce"] != nonce:
            raise ProductEditConflict(product)
        changed = change(product) | {"nonce": derived_nonce(operation_id, nonce)}
        former = [key for key in product["category_ids"] if key not in changed["category_ids"]]
        if former:
            await idempotency.note(db, operation_id, former_categories=former)
        if await _try_update(db, product, changed, now, operation_id):
            await trim_marks(db, PRODUCTS, product)
            return Updated(changed, former)
    raise ProductEditConflict(await _require(db, sku))


async def _require(db: Database, sku: str) -> ProductDocument:
    product = await find_by_sku(db, sku)
    if product is None:
        raise NotFound("Product", sku)
    return product


def needs_mark(present: ProductDocument, changed: DescribedProduct | ProductDocument) -> bool:
    """Returns whether the edit must mark the product before it changes it."""
    is_renamed = changed.get("slug") != present.get("slug")
    return is_renamed or any(key not in present["category_ids"] for key in changed["category_ids"])


async def _try_update(
    db: Database, product: ProductDocument, changed: ProductDocument, now: datetime, operation_id: str
) -> bool:
    products = db[PRODUCTS.name]
    guard: Document = {"sku": product["sku"], "nonce": product["nonce"]}
    claims = Claims(db, now)
    if needs_mark(product, changed):
        added = [key for key in changed["category_ids"] if key not in product["category_ids"]]
        # Editors don't remove each other's marks: the first one to finish wins.
        incoming = {"op": claims.key, "at": now, "ids": added}
        if not (await products.update_one(guard, {"$push": {"incoming": incoming}})).matched_count:
            return False
        guard["incoming.op"] = claims.key
        refusal = await _refusal(db, claims, product, changed, added)
        if refusal is not None:
            await products.update_one(guard, {"$pull": {"incoming": {"op": claims.key}}})
            raise refusal
    # The stock changes `in_stock` and the terms without a new nonce, so its version is part of the guard.
    guard["stock_version"] = product.get("stock_version")
    await store_words(db, words_in(changed) - words_in(product))
    changes = {key: value for key, value in changed.items() if product.get(key) != value and key != "_id"}
    update: Document = {"$set": changes, **mark_applied(operation_id), "$unset": {"incoming": ""}}
    if not (await products.update_one(guard, update)).matched_count:
        await claims.abandon()
        return False
    await claims.settle()
    return True


async def _refusal(
    db: Database, claims: Claims, product: ProductDocument, changed: ProductDocument, added: Sequence[ObjectId]
) -> DomainError | None:
    """Claims a new slug, and checks the new categories. Returns why the product cannot have them."""
    usable = await find_usable(db, added) if added else {}
    gone = next((key for key in added if key not in usable), None)
    if gone is not None:
        return NotFound("Category", str(gone))
    if changed.get("slug") != product.get("slug") and await claims.mark([changed], [product]):
        return SlugTaken(str(changed.get("slug")))
    return None
