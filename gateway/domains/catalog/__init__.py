"""The catalog: categories and products."""

from __future__ import annotations

from pathlib import Path

from portico.gateway.imports.runs import Importer
from portico.resolvers.attachments import Attachments
from portico.resolvers.catalog import category_jobs, product_edits, product_jobs, product_slugs, products
from portico.resolvers.catalog.categories import CATEGORIES
from portico.resolvers.catalog.category_imports import import_categories
from portico.resolvers.catalog.product_imports import import_products
from portico.resolvers.catalog.settings import CatalogSettings
from portico.resolvers.domains import Domain, Job, Turn
from portico.resolvers.problems import Invariant
from portico.schema.catalog import categories as category_schema
from portico.schema.catalog import category_products, product_mutations
from portico.schema.catalog import products as product_schema

from . import demo
from .records import category_record, product_record


async def _finish_categories(turn: Turn) -> int:
    return await category_jobs.finish_changes(turn.db, now=turn.now)


async def _finish_products(turn: Turn) -> int:
    return await product_jobs.finish_changes(turn.db, turn.resources.of(Attachments), now=turn.now)


async def _settle_slugs(turn: Turn) -> int:
    return await product_slugs.settle_slugs(turn.db, creation=product_edits.CREATION, now=turn.now)


DOMAIN = Domain(
    name="catalog",
    about="Categories and products.",
    collections=(CATEGORIES, products.PRODUCTS, product_slugs.SLUGS),
    hosts=(products.HOST,),
    settings=CatalogSettings,
    jobs=(
        Job("finish-categories", _finish_categories),
        Job("finish-products", _finish_products),
        Job("settle-slugs", _settle_slugs),
    ),
    invariants=(
        Invariant(
            "Every stored ancestor list equals the chain of parents, with their current names and slugs.",
            category_jobs.find_wrong_lineages,
        ),
        Invariant(
            "Every product's terms, keywords and savings follow from its fields, and its categories exist.",
            product_jobs.find_wrong_products,
        ),
        Invariant("Every slug of a product belongs to that product alone.", product_slugs.find_wrong_slugs),
    ),
    kinds=(category_schema.CATEGORY, product_schema.PRODUCT),
    pages=(category_schema.PAGES, product_schema.PAGES),
    types=(product_schema.AudioAlbum, product_schema.Film, product_schema.GeneralProduct),
    queries=(category_schema.CategoryQuery, product_schema.ProductQuery),
    mutations=(category_schema.CategoryMutation, product_mutations.ProductMutation),
    extensions={"Category": (category_products.CategoryProducts,)},
    importers={
        "categories": Importer(category_record, lambda record: record.slug, import_categories),
        "products": Importer(
            product_record,
            lambda record: record.fields.sku,
            import_products,
            is_parallel=True,
            fills=products.PRODUCTS,
        ),
    },
    demo=demo.load,
    examples=(("Catalog", Path(__file__).parent / "examples.graphql"),),
)
