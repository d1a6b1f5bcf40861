"""Fills a database of any size for `bench.worst`: a few documents as the gateway stores them, and copies of them."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from bson import ObjectId

from bench import generated, threads, worst_network, worst_world
from bench.copies import Stored, Template, insert, numbered, without
from bench.network import BEGIN
from portico.gateway.domains.catalog.records import category_record, product_record
from portico.resolvers.ads.zones import MAX_ADS, ZONES, zone_key
from portico.resolvers.catalog.categories import CATEGORIES
from portico.resolvers.catalog.category_imports import import_categories
from portico.resolvers.catalog.images import MAX_IMAGES, ListedImage
from portico.resolvers.catalog.product_imports import import_products
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.catalog.settings import CatalogSettings
from portico.resolvers.comments.discussions import DISCUSSIONS, DOCUMENTS, EMBEDDED, PAGES, discussion_id
from portico.resolvers.comments.posted import EMBEDDED_COLLECTION
from portico.resolvers.content.nodes import NODES
from portico.resolvers.content.revisions import REVISIONS
from portico.resolvers.documents import Database, Document

SITE = "bench"
SEED = 20_260_101
TEMPLATES = 90
# Short lists have so many rows more, so that they fill a page in a small database, too.
AT_LEAST = 200
# The name of the root with too many categories below it, which is the last one.
LAST = "~"
# The categories below one that its lists cover, and those below one that has too many for them.
WIDE, TOO_WIDE = 9_000, CatalogSettings.max_counted + 1
# The most comments of one discussion in these storages: short comments of 1 MiB, or few comments on a page.
EMBEDDED_COMMENTS, PAGED_COMMENTS = 2_400, 100_000
# An embedded discussion for each so many objects.
OBJECTS_AN_EMBEDDED = 1_000
_NOW = datetime(2026, 1, 1, tzinfo=UTC)

# Fills the collections of a domain. Returns the keys that operations need.
Fill = Callable[[Database, int, random.Random], Awaitable[Mapping[str, str]]]


async def store(db: Database, size: int, seed: int = SEED) -> dict[str, str]:
    """Stores about `size` objects in each domain. Returns the keys that operations need."""
    known: dict[str, str] = {}
    for fill in PARTS.values():
        known |= await fill(db, size, random.Random(seed))
    return known


async def _catalog(db: Database, size: int, rng: random.Random) -> dict[str, str]:
    """Stores products, a category with many others below, and one with more of them than a list may cover."""
    lines = generated.category_lines(rng)
    await import_categories(db, [category_record(line) for line in lines], now=_NOW)
    shelves = [line["slug"] for line in lines if "shelf" in line["slug"]]
    kinds = ("Audio Album", "Film", "Grocery")
    products = [
        {
            **generated.product(kinds[number % 3], shelves, rng),
            "sku": f"W-{number}",
            "issueDate": f"2020-01-{1 + number % 28:02}",
        }
        for number in range(TEMPLATES)
    ]
    records = [product_record({**one, "issueDate": f"{one['issueDate']}T00:00:00.000Z"}) for one in products]
    await import_products(db, records, now=_NOW)
    images: list[ListedImage] = [
        {"_id": ObjectId(), "content_type": "image/png", "width": 800, "height": 800, "alt": "A cover."}
    ] * MAX_IMAGES
    stored = [{**one, "images": images} async for one in db[PRODUCTS.name].find({"sku": {"$regex": "^W-"}})]
    await insert(db, PRODUCTS.name, _products(stored, size))
    roots = [line["slug"] for line in lines if "parent" not in line]
    return {
        "category": str(await _widen(db, roots[0], min(size // 33, WIDE))),
        "wide": str(await _widen(db, roots[1], TOO_WIDE, name=LAST)),
    }


async def _widen(db: Database, slug: str, count: int, *, name: str | None = None) -> ObjectId:
    """Stores so many categories below this root, and gives it the name. Returns its id."""
    if name is not None:
        await db[CATEGORIES.name].update_one({"slug": slug}, {"$set": {"name": name}})
    root = await db[CATEGORIES.name].find_one({"slug": slug})
    assert root is not None
    child = await db[CATEGORIES.name].find_one({"parent": root["_id"]})
    assert child is not None
    template = without(child, "_id", "slug")
    await insert(
        db,
        CATEGORIES.name,
        (template.copy({"_id": ObjectId(), "slug": f"{slug}-copy-{number}"}) for number in range(count)),
    )
    key: ObjectId = root["_id"]
    return key


def _products(stored: list[Document], size: int) -> Iterator[Stored]:
    templates = [without(one, "_id", "sku", "issue_date", "title") for one in stored]
    for number in range(max(size - len(stored), 0)):
        one = stored[number % len(stored)]
        yield templates[number % len(stored)].copy(
            {
                "_id": ObjectId(),
                "sku": f"C-{number}",
                "issue_date": one["issue_date"] + timedelta(minutes=number),
                "title": f"{one['title']} {number}",
            }
        )


async def _discussions(db: Database, size: int, _rng: random.Random) -> dict[str, str]:
    """Stores a discussion in each storage, and copies of the embedded one."""
    sizes = {DOCUMENTS: size, EMBEDDED: min(size, EMBEDDED_COMMENTS), PAGES: min(size, PAGED_COMMENTS)}
    found = {}
    for number, (storage, count) in enumerate(sizes.items()):
        key = f"W-{number}"
        # In a thread, so that the driver can look after its connections meanwhile.
        made = await asyncio.to_thread(threads.comments_of, discussion_id("Product", key), count, seed=count)
        discussion, comments = await threads.put_discussion(db, kind="Product", key=key, storage=storage, made=made)
        deepest = max(comments, key=lambda one: int(one["depth"]))
        found[storage] = str(discussion["_id"])
        found[f"{storage} thread"] = max(comments, key=lambda one: int(one["replies"]))["slug"]
        found[f"{storage} deepest"] = deepest["slug"]
    await _copy_embedded(db, ObjectId(found[EMBEDDED]), size // OBJECTS_AN_EMBEDDED)
    return found


async def _copy_embedded(db: Database, discussion: ObjectId, count: int) -> None:
    keys = [numbered("talk", number) for number in range(count)]
    for name in (DISCUSSIONS.name, EMBEDDED_COLLECTION):
        stored = await db[name].find_one({"_id": discussion})
        assert stored is not None
        template = without(stored, "_id")
        await insert(db, name, (template.copy({"_id": key}) for key in keys))


async def _content(db: Database, size: int, _rng: random.Random) -> dict[str, str]:
    """Stores pages below a section, all with one tag, a blog with entries, and a page with many revisions."""
    section: Document = {
        "_id": numbered("site", 0),
        "type": "section",
        "slug": "site",
        "title": "Site",
        "words": ["site"],
        "parent": None,
        "ancestors": [],
        "created": BEGIN,
        "updated": BEGIN,
        "author": {"id": "editor", "name": "Editor"},
        "tags": [],
        "nonce": "0",
        "revision": 1,
        "visible_from": BEGIN,
        "detail": {"kind": "FOLDER"},
        "schema_version": NODES.version,
    }
    blog = {**section, "_id": numbered("site", 1), "slug": "blog", "detail": {"kind": "BLOG"}}
    await insert(db, NODES.name, [section, blog])
    text = "A *page*.\n"
    below = {"parent": section["_id"], "ancestors": [section["_id"]]}
    page = {**section, **below, "type": "page", "tags": ["news"], "detail": {"text": text}}
    await insert(db, NODES.name, _pages(page, "page", size))
    entry: Document = {**section, "parent": blog["_id"], "ancestors": [blog["_id"]], "type": "entry", "tags": ["entry"]}
    entry["detail"] = {"text": text, "publish_on": BEGIN}
    await insert(db, NODES.name, _pages(entry, "post", AT_LEAST + size // 10))
    await insert(db, REVISIONS.name, _revisions(numbered("page", 0), text, AT_LEAST + size // 10))
    return {}


def _pages(shared: Document, name: str, count: int) -> Iterator[Stored]:
    template = without(shared, "_id", "slug", "created")
    for number in range(count):
        yield template.copy(
            {"_id": numbered(name, number), "slug": f"{name}-{number}", "created": BEGIN + timedelta(minutes=number)}
        )


def _revisions(node: ObjectId, text: str, count: int) -> Iterator[Stored]:
    template = Template(
        {
            "node": node,
            "text": text,
            "author": {"id": "editor", "name": "Editor"},
            "created": BEGIN,
            "schema_version": 1,
        }
    )
    for number in range(1, count + 1):
        yield template.copy({"_id": f"{node}.{number}", "number": number, "nonce": str(number)})


async def _ads(db: Database, size: int, _rng: random.Random) -> dict[str, str]:
    """Stores a zone with the most ads, each with 20 keywords, and many zones with one ad."""
    ads = [
        {
            "campaign_id": f"acme:{number:04}",
            "ad_unit_id": "banner",
            "ecpm": 5_000 - number,
            "keywords": [f"word {(number + nth) % 500}" for nth in range(20)],
            "daily_cap": 1_000_000,
            "total_cap": None,
            "shown": 0,
        }
        for number in range(MAX_ADS)
    ]
    zone = {"_id": zone_key(SITE, "full"), "site_id": SITE, "zone_id": "full", "nonce": 1.0, "ads": ads}
    await insert(db, ZONES.name, [zone])
    others = Template({"site_id": SITE, "nonce": 1.0, "ads": ads[:1]})
    await insert(
        db,
        ZONES.name,
        (others.copy({"_id": zone_key(SITE, str(number)), "zone_id": str(number)}) for number in range(size)),
    )
    return {}


PARTS: Mapping[str, Fill] = {
    "catalog": _catalog,
    "comments": _discussions,
    "content": _content,
    "social": worst_network.fill,
    "ads": _ads,
    "game": worst_world.fill_game,
    "shop": worst_world.fill_shop,
    "accounts": worst_world.fill_accounts,
    "analytics": worst_world.fill_analytics,
}
