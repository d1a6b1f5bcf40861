"""Imports products in bulk by SKU. Safe to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, DomainError, InvalidInput
from portico.resolvers.import_outcomes import Outcome
from portico.resolvers.writes.marks import derived_nonce, random_operation_id

from .categories import find_by_slugs
from .product_edits import create_products, needs_mark, update_product
from .product_rules import DescribedProduct, ProductFields, document_of
from .product_terms import with_stock, words_in
from .products import PRODUCTS, ProductDocument, find_by_skus
from .vocabulary import store_words


class ProductRecord(NamedTuple):
    """A product as an import describes it: `fields` without category ids, and the categories' slugs."""

    fields: ProductFields
    categories: Sequence[str] = ()


async def import_products(db: Database, records: Sequence[ProductRecord], *, now: datetime) -> list[Outcome]:
    """Creates and changes products to match the records. Each SKU may occur once.

    Returns:  the outcome of each record.
    Writes:   products; one insert of all new products, confirmed as in `product_edits`; one update of all changed ones.
    """
    outcomes: dict[int, Outcome] = {}
    categories = await _find_categories(db, records)
    described: dict[int, DescribedProduct] = {}
    for number, record in enumerate(records):
        try:
            described[number] = document_of(record.fields, _ids(record, categories))
        except InvalidInput as error:
            outcomes[number] = error
    known = await find_by_skus(db, [document["sku"] for document in described.values()]) if described else {}
    new: dict[int, DescribedProduct] = {}
    changed: dict[int, DescribedProduct] = {}
    for number, read in described.items():
        present = known.get(read["sku"])
        if present is None:
            new[number] = read
            continue
        # Pages of other sites link to the slug. So a file without slugs, e.g. from a merchant's own system, keeps it.
        has_slug = "slug" in records[number].fields.plain
        slug = read.get("slug") if has_slug else present.get("slug")
        # A record does not say whether the product is in stock.
        terms = with_stock(read["terms"], in_stock=bool(present.get("in_stock")))
        document: DescribedProduct = {**read, "slug": slug, "terms": terms}
        if all(present.get(key) == value for key, value in document.items()):
            outcomes[number] = "unchanged"
        else:
            changed[number] = document
    outcomes |= await _insert(db, new, now)
    outcomes |= await _change(db, known, changed, now)
    return [outcomes[number] for number in range(len(records))]


async def _find_categories(db: Database, records: Sequence[ProductRecord]) -> dict[str, ObjectId]:
    slugs = list({slug for record in records for slug in record.categories})
    return {slug: category["_id"] for slug, category in (await find_by_slugs(db, slugs, {"_id": 1})).items()}


def _ids(record: ProductRecord, categories: dict[str, ObjectId]) -> list[ObjectId]:
    for slug in record.categories:
        if slug not in categories:
            raise InvalidInput(f"There is no category {slug!r}.", "categories", code=InvalidInput.UNKNOWN)
    return [categories[slug] for slug in record.categories]


async def _insert(db: Database, new: dict[int, DescribedProduct], now: datetime) -> dict[int, Outcome]:
    if not new:
        return {}
    refused = await create_products(db, list(new.values()), now=now)
    return {number: refused.get(described["sku"], "created") for number, described in new.items()}


async def _change(
    db: Database, known: dict[str, ProductDocument], changed: dict[int, DescribedProduct], now: datetime
) -> dict[int, Outcome]:
    outcomes: dict[int, Outcome] = {}
    updates: list[tuple[Document, Document]] = []
    nonces: dict[str, str] = {}
    for number, document in changed.items():
        present = known[document["sku"]]
        operation_id = random_operation_id()
        outcomes[number] = "changed"
        if needs_mark(present, document):
            outcomes[number] = await _change_one(db, present, document, now, operation_id)
        else:
            guard = {"sku": document["sku"], "nonce": present["nonce"], "stock_version": present.get("stock_version")}
            nonce = nonces[document["sku"]] = derived_nonce(operation_id, present["nonce"])
            updates.append((guard, {"$set": {**_changes(present, document), "nonce": nonce}}))
    # Words come before the products that have them.
    await store_words(db, _new_words(known, changed.values()))
    if updates and await PRODUCTS.change_all(db, updates) < len(updates):
        outcomes |= await _overtaken(db, changed, nonces)
    return outcomes


def _new_words(known: dict[str, ProductDocument], changed: Iterable[DescribedProduct]) -> set[str]:
    """Returns the words that changed products did not have."""
    pairs = [(known[one["sku"]], one) for one in changed]
    reworded = [(before, one) for before, one in pairs if before.get("keywords") != one["keywords"]]
    return {word for before, one in reworded for word in words_in(one) - words_in(before)}


def _changes(present: ProductDocument, document: DescribedProduct) -> Document:
    """Returns the paths that change, and their values. MongoDB leaves the indexes of other paths alone."""
    changes: Document = {key: value for key, value in document.items() if present.get(key) != value}
    prices: Document = dict(document["pricing"])
    before: object = present.get("pricing")
    # The other fields with parts can have any keys, also such that a path cannot name.
    if isinstance(before, dict) and before.keys() == prices.keys():
        changes.pop("pricing", None)
        changes |= {f"pricing.{key}": value for key, value in prices.items() if before[key] != value}
    return changes


async def _overtaken(db: Database, changed: dict[int, DescribedProduct], nonces: dict[str, str]) -> dict[int, Outcome]:
    """Returns a conflict for each record whose product was edited or deleted between the read and the write."""
    found = await PRODUCTS.of(db).find({"sku": {"$in": list(nonces)}}, {"sku": 1, "nonce": 1}).to_list()
    present = {product["sku"]: product["nonce"] for product in found}
    overtaken = Conflict("Somebody else changed the product in the meantime. Try again.")
    return {
        number: overtaken
        for number, document in changed.items()
        if document["sku"] in nonces and present.get(document["sku"]) != nonces[document["sku"]]
    }


async def _change_one(
    db: Database, present: ProductDocument, document: DescribedProduct, now: datetime, operation_id: str
) -> Outcome:
    try:
        await update_product(
            db,
            sku=document["sku"],
            nonce=present["nonce"],
            change=lambda product: {**product, **document},
            now=now,
            operation_id=operation_id,
        )
    except DomainError as error:
        return error
    return "changed"
