"""The catalog: categories and products."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from starlette.routing import BaseRoute, Route

from portico.gateway.imports.runs import Importer
from portico.gateway.pictures.checking import PictureProcesses
from portico.gateway.state import State
from portico.resolvers.attachments import Attachments
from portico.resolvers.catalog import (
    category_jobs,
    image_jobs,
    product_edits,
    product_jobs,
    product_slugs,
    products,
    word_jobs,
)
from portico.resolvers.catalog.categories import CATEGORIES
from portico.resolvers.catalog.category_imports import import_categories
from portico.resolvers.catalog.image_edits import ImageRecord, ImageRules, import_images
from portico.resolvers.catalog.images import IMAGES
from portico.resolvers.catalog.product_imports import import_products
from portico.resolvers.catalog.settings import CatalogSettings
from portico.resolvers.catalog.vocabulary import WALKS, WORDS
from portico.resolvers.declarations import Domain, Job, Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.import_outcomes import Outcome
from portico.resolvers.problems import Invariant
from portico.schema.catalog import categories as category_schema
from portico.schema.catalog import category_products, image_mutations, product_mutations, product_suggestions
from portico.schema.catalog import products as product_schema
from portico.schema.catalog.merchants import MERCHANT

from . import demo, images, setting_limits
from .records import category_record, image_record, product_record


async def _finish_categories(run: Job.Run) -> int:
    return await category_jobs.finish_changes(run.db, now=run.now)


async def _finish_products(run: Job.Run) -> int:
    return await product_jobs.finish_changes(run.db, run.resources.of(Attachments), now=run.now)


async def _settle_slugs(run: Job.Run) -> int:
    return await product_slugs.settle_slugs(run.db, creation=product_edits.CREATION, now=run.now)


async def _collect_words(run: Job.Run) -> int:
    return await word_jobs.collect(run.db)


async def _settle_images(run: Job.Run) -> int:
    return await image_jobs.settle_images(run.db, now=run.now)


@contextlib.asynccontextmanager
async def _image_rules(resources: Resources, _db: Database) -> AsyncIterator[ImageRules]:
    own = resources.of(CatalogSettings)
    pictures = PictureProcesses(max_pixels=own.max_image_pixels, max_bytes=own.max_image_bytes)
    yield ImageRules(own.max_image_bytes, pictures, partial(_download, own.import_private_hosts))


def _download(allows_private: bool, url: str) -> AsyncIterator[bytes]:
    from .remote_images import RemoteImages  # noqa: PLC0415 - only imports need an HTTP client

    return RemoteImages(allows_private).read(url)


async def _import_images(
    db: Database, records: Sequence[ImageRecord], *, now: datetime, resources: Resources
) -> Sequence[Outcome]:
    return await import_images(db, records, rules=resources.of(ImageRules), now=now)


def _routes(state: Callable[[], State]) -> Sequence[BaseRoute]:
    return [Route(images.ROUTE, images.Images(state))]


DOMAIN = Domain(
    name="catalog",
    about="Categories and products.",
    roles=(MERCHANT,),
    collections=(CATEGORIES, products.PRODUCTS, product_slugs.SLUGS, IMAGES, WORDS, WALKS),
    hosts=(products.HOST,),
    settings=CatalogSettings,
    require=setting_limits.require,
    services=(Service(ImageRules, _image_rules),),
    jobs=(
        Job("finish-categories", _finish_categories),
        Job("finish-products", _finish_products),
        Job("settle-slugs", _settle_slugs),
        Job("settle-images", _settle_images),
        Job("collect-words", _collect_words),
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
        Invariant("Every word of a product or a category is known to searches.", word_jobs.find_unknown_words),
        Invariant("Every image is shown by its product or category.", image_jobs.find_stray_images),
        Invariant("Every image of a product or a category has its bytes.", image_jobs.find_missing_images),
    ),
    kinds=(category_schema.CATEGORY, product_schema.PRODUCT),
    pages=(category_schema.PAGES, product_schema.PAGES),
    types=(product_schema.AudioAlbum, product_schema.Film, product_schema.GeneralProduct),
    queries=(category_schema.CategoryQuery, product_schema.ProductQuery),
    mutations=(category_schema.CategoryMutation, product_mutations.ProductMutation, image_mutations.ImageMutation),
    extensions={"Category": (category_products.CategoryProducts,)},
    suggesters=(product_suggestions.suggest,),
    importers={
        "categories": Importer(category_record, lambda record: record.slug, import_categories),
        "products": Importer(
            product_record,
            lambda record: record.fields.sku,
            import_products,
            is_parallel=True,
            fills=products.PRODUCTS,
        ),
        "images": Importer(image_record, lambda record: (record.kind, record.name), _import_images, has_files=True),
    },
    routes=_routes,
    demo=demo.load,
    examples=(("Catalog", Path(__file__).parent / "examples.graphql"),),
)
