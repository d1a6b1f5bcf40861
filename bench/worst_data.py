"""Fills a database of any size for `bench.worst`: a few documents as the gateway stores them, and copies of them."""

import itertools
import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from bson import ObjectId

from bench import generated, threads
from bench.network import BEGIN, by, following, member, post_of
from portico.gateway.domains.catalog.records import category_record, product_record
from portico.resolvers.ads.zones import MAX_ADS, ZONES, zone_key
from portico.resolvers.catalog.categories import CATEGORIES
from portico.resolvers.catalog.category_imports import import_categories
from portico.resolvers.catalog.product_imports import import_products
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from portico.resolvers.content.nodes import NODES
from portico.resolvers.documents import Database, Document
from portico.resolvers.social.members import MEMBERS
from portico.resolvers.social.news import NEWS
from portico.resolvers.social.posts import POSTS
from portico.resolvers.social.relations import RELATIONS

SITE = "bench"
AUDIENCES = ("PUBLIC", "CIRCLES")
TEMPLATES = 90
# The largest discussions of these storages that a test needs: short comments of 1 MiB, or few comments on a page.
EMBEDDED_COMMENTS, PAGED_COMMENTS = 2_400, 100_000
_BATCH = 2_000
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def store(db: Database, size: int, seed: int = 20_260_101) -> dict[str, str]:
    """Stores about `size` objects in each domain. Returns the keys that operations need."""
    category = await _catalog(db, size, random.Random(seed))
    discussions = await _discussions(db, size)
    await _content(db, size)
    await _network(db, size)
    await _ads(db, size)
    return {"category": category, **discussions}


async def _insert(db: Database, name: str, documents: Iterable[Document]) -> None:
    rest = iter(documents)
    while batch := list(itertools.islice(rest, _BATCH)):
        await db[name].insert_many(batch, ordered=False)


async def _catalog(db: Database, size: int, rng: random.Random) -> str:
    """Stores products, and below one category another for each thousand. Returns the id of that category."""
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
    stored = [one async for one in db[PRODUCTS.name].find({"sku": {"$regex": "^W-"}})]
    await _insert(db, PRODUCTS.name, _products(stored, size))
    root = await db[CATEGORIES.name].find_one({"slug": lines[0]["slug"]})
    child = await db[CATEGORIES.name].find_one({"parent": root["_id"]}) if root else None
    assert root is not None
    assert child is not None
    await _insert(
        db, CATEGORIES.name, ({**child, "_id": ObjectId(), "slug": f"copy-{number}"} for number in range(size // 1_000))
    )
    return str(root["_id"])


def _products(stored: list[Document], size: int) -> Iterator[Document]:
    for number in range(max(size - len(stored), 0)):
        one = stored[number % len(stored)]
        issued = one["issue_date"] + timedelta(minutes=number)
        yield {
            **one,
            "_id": ObjectId(),
            "sku": f"C-{number}",
            "issue_date": issued,
            "title": f"{one['title']} {number}",
        }


async def _discussions(db: Database, size: int) -> dict[str, str]:
    """Stores a discussion in each storage."""
    sizes = {DOCUMENTS: size, EMBEDDED: min(size, EMBEDDED_COMMENTS), PAGES: min(size, PAGED_COMMENTS)}
    found = {}
    for number, (storage, count) in enumerate(sizes.items()):
        key = f"W-{number}"
        discussion, comments = await threads.put_discussion(db, kind="Product", key=key, storage=storage, made=count)
        deepest = max(comments, key=lambda one: int(one["depth"]))
        found[storage] = str(discussion["_id"])
        found[f"{storage} thread"] = max(comments, key=lambda one: int(one["replies"]))["slug"]
        found[f"{storage} deepest"] = deepest["slug"]
    return found


async def _content(db: Database, size: int) -> None:
    """Stores pages below a section, all with one tag."""
    section: Document = {
        "_id": ObjectId(),
        "type": "section",
        "slug": "site",
        "title": "Site",
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
    }
    await db[NODES.name].insert_one(section)
    page = {**section, "type": "page", "parent": section["_id"], "ancestors": [section["_id"]], "tags": ["news"]}
    page["detail"] = {"text": "A *page*.\n"}
    await _insert(
        db,
        NODES.name,
        (
            {**page, "_id": ObjectId(), "slug": f"page-{number}", "created": BEGIN + timedelta(minutes=number)}
            for number in range(size)
        ),
    )


async def _network(db: Database, size: int) -> None:
    """Stores `star`, whom all members follow, with posts of which strangers see every second one, and their feeds."""
    names = [f"fan-{number}" for number in range(size)]
    await _insert(db, MEMBERS.name, map(member, ["star", "reader", *names]))
    await _insert(db, RELATIONS.name, (side for name in ["reader", *names] for side in following(name, "star")))
    posts = (_post(number) for number in range(size))
    while batch := list(itertools.islice(posts, _BATCH)):
        await db[POSTS.name].insert_many(batch, ordered=False)
        await db[NEWS.name].insert_many([_entry(post) for post in batch], ordered=False)


def _post(number: int) -> Document:
    posted = BEGIN + timedelta(minutes=number)
    comments = [
        {"id": ObjectId(), "by": by(f"fan-{nth}"), "posted": posted + timedelta(seconds=nth), "text": "A comment."}
        for nth in range(3)
    ]
    return {**post_of(ObjectId(), "star", posted, "A post. " * 10, comments), "audience": AUDIENCES[number % 2]}


def _entry(post: Document) -> Document:
    return {
        "_id": {"post": post["_id"], "of": "reader"},
        "of": "reader",
        "posted": post["posted"],
        "post": post["_id"],
        "by": "star",
    }


async def _ads(db: Database, size: int) -> None:
    """Stores a zone with the most ads, each with 20 keywords, and many empty zones."""
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
        for number in range(min(size, MAX_ADS))
    ]
    zone = {"_id": zone_key(SITE, "full"), "site_id": SITE, "zone_id": "full", "nonce": 1.0, "ads": ads}
    others = (
        {**zone, "_id": zone_key(SITE, str(number)), "zone_id": str(number), "ads": ads[:1]} for number in range(size)
    )
    await _insert(db, ZONES.name, itertools.chain([zone], others))
