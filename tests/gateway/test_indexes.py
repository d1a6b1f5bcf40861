"""Every command uses an index: none scans a collection, and this module lists the reads that may sort in memory.

A start creates the missing indexes, and `rebuild` replaces outdated ones.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo import IndexModel

from portico.gateway.clock import SystemClock
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database
from portico.schema.kinds import Kind
from tests.accounts.support.accounts import deposit_input, open_account, transfer_input
from tests.catalog.support.catalog import add_categories, add_products, album, film, mark_in_stock, pricing, product
from tests.support.domains import COLLECTIONS, INVARIANTS, JOBS, create_indexes, migrate
from tests.support.explaining import Plan, explain
from tests.support.harness import (
    MUTATIONS,
    GatewayClient,
    category_input,
    create_category,
    create_product,
    product_input,
)
from tests.support.importing import category, put
from tests.support.interruptions import crashing

SORTS = ("NEWEST", "DISCOUNT_DESC", "PRICE_ASC", "PRICE_DESC", "TITLE_ASC")
FILTERS: dict[str, dict[str, Any]] = {
    "everything": {},
    "a type": {"type": "FILM"},
    "a genre": {"genres": ["jazz"]},
    "several genres": {"genres": ["jazz", "drama", "polka"]},
    "in stock": {"inStock": True},
    "out of stock": {"inStock": False},
    "a type and genres": {"type": "FILM", "genres": ["jazz", "drama"], "inStock": False},
    "an actor": {"actor": "Actor 7"},
    "an artist": {"artist": "Artist 3"},
    "a title word": {"titleWord": "blue"},
    "properties": {"properties": [{"name": "label", "value": "label 4"}, {"name": "format", "value": "lp"}]},
    "an actor of a type": {"actor": "Actor 7", "type": "FILM"},
    "a search": {"search": "blue -red"},
    "a search and a type": {"search": "blue", "type": "FILM"},
    "a title prefix": {"titlePrefix": "Blue T"},
    "prices": {"minPrice": 500, "maxPrice": 900},
    "a discount": {"minPctSavings": 60},
    "a discount on a genre": {"minPctSavings": 60, "genres": ["jazz", "drama"]},
}
# A text index finds the matches of a search. It supports no other order.
SEARCHES = {"a search", "a search and a type"}
# Few products share a keyword. One index finds them, and the server sorts them in memory for other orders.
KEYWORDS = {"an actor", "an artist", "a title word", "properties", "an actor of a type"}
# A range restricts one path and the order uses another. The server chooses the cheaper of the two indexes.
RANGES = {"a title prefix", "prices", "a discount", "a discount on a genre"}
MAY_SORT = SEARCHES | KEYWORDS | RANGES
# With two terms, e.g. a category and a type, the server uses an index for one and filters by the other. If a category
# has few products, the server may sort them instead.
FEW = 100
# An invariant is checked on each category, photo, file, room, character, stack, trade, zone, campaign, notification,
# session and roll-up, so it reads all of them.
MAY_SCAN = {
    "find categories {}",
    "find discussions {'closed': None}",
    "find cms.nodes {'type': 'photo', 'detail.file': {'$ne': None}}",
    "find cms.assets.files {'metadata.unsettled': None, 'metadata.removed': None}",
    "find images {'unsettled': None}",
    "find products {'images._id': {'$exists': True}}",
    "find categories {'images._id': {'$exists': True}}",
    "aggregate game.stacks None",
    "aggregate game.locations None",
    "aggregate game.characters None",
    "find ads.zones {}",
    "find ads.campaigns {}",
    "find notifications {}",
    "find analytics.session_roll_ups {'level': {'$nin': ['HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR']}}",
}

LIST = """
query ($filter: ProductFilter, $sort: ProductSort, $after: String) {
  products(filter: $filter, sort: $sort, first: 10, after: $after) { nodes { sku } pageInfo { endCursor PREVIOUS } }
}
"""
BRANCH = """
query ($slug: String!, $deep: Boolean!, $filter: ProductFilter, $sort: ProductSort, $after: String) {
  category(slug: $slug) {
    products(includeDescendants: $deep, filter: $filter, sort: $sort, first: 10, after: $after) {
      nodes { sku } pageInfo { endCursor PREVIOUS }
    }
  }
}
"""


@pytest.fixture(scope="module")
async def shop(shared: GatewayClient) -> GatewayClient:
    """2,400 products in 253 categories: many share a genre, few share a person, and one in ten has no date."""
    rng = random.Random(7)
    shelves = [{"slug": f"shelf-{number}", "name": f"Shelf {number}", "parent": "all"} for number in range(250)]
    small = [{"slug": "few", "name": "Few"}, {"slug": "few-1", "name": "Few 1", "parent": "few"}]
    await add_categories(shared.db, [{"slug": "all", "name": "All"}, *small, *shelves])
    await add_products(shared.db, [_product(rng, number) for number in range(2400)])
    await mark_in_stock(shared.db, {"pricing.pct_savings": {"$gt": 85}})
    return shared


def _product(rng: random.Random, number: int) -> dict[str, Any]:
    price = rng.randrange(100, 3000)
    fields: dict[str, Any] = {
        "sku": f"s{number}",
        "title": " ".join(rng.choices(["Blue", "Red", "Train", "Night", "The", f"No. {number}"], k=3)),
        "description": " ".join(rng.choices(["blue", "green", "record", "story"], k=5)),
        "pricing": pricing(price, rng.randrange(price)),
        "categories": list(
            {f"shelf-{rng.randrange(250)}", "few-1" if number % 40 == 0 else f"shelf-{rng.randrange(250)}"}
        ),
        "properties": [{"name": "Label", "value": f"Label {rng.randrange(40)}"}, {"name": "Format", "value": "LP"}],
        "issueDate": None if number % 10 == 0 else f"19{rng.randrange(50, 99)}-0{rng.randrange(1, 9)}-01T00:00:00Z",
    }
    genres = rng.sample(["Jazz", "Pop", "Drama", "Comedy", "Polka"], 2)
    match number % 3:
        case 0:
            return album(artist=f"Artist {rng.randrange(80)}", genres=genres, **fields)
        case 1:
            return film(actors=[f"Actor {rng.randrange(200)}" for _ in range(3)], genres=genres, **fields)
    return product(**fields)


async def plans(gateway: GatewayClient, query: str, variables: dict[str, Any]) -> tuple[Any, list[Plan]]:
    """The answer, and the plan of each command that the query sends."""
    gateway.commands.clear()
    data = await gateway.data(query, variables)
    return data, [plan for command in list(gateway.commands.sent) for plan in await explain(gateway.db, command)]


async def assert_indexed(gateway: GatewayClient, query: str, variables: dict[str, Any]) -> list[Plan]:
    """Asserts that each command of the query uses an index, also for its order. Returns the plans."""
    _, found = await plans(gateway, query, variables)
    assert not any(plan.scans_collection or plan.sorts_in_memory for plan in found), query
    return found


async def first_and_later(gateway: GatewayClient, text: str, variables: dict[str, Any]) -> list[Plan]:
    """The plans for the first page of a list, and for the next page with `hasPreviousPage`."""
    data, found = await plans(gateway, text.replace("PREVIOUS", ""), variables)
    listed = data.get("products") or data["category"]["products"]
    assert listed["nodes"]
    after = {"after": listed["pageInfo"]["endCursor"]}
    _, later = await plans(gateway, text.replace("PREVIOUS", "hasPreviousPage"), variables | after)
    assert len(later) >= 2
    return [*found, *later]


@pytest.mark.sample(3)
@pytest.mark.parametrize("sort", SORTS)
async def test_every_filter_in_every_order_uses_an_index(shop: GatewayClient, sort: str) -> None:
    for name, conditions in FILTERS.items():
        found = await first_and_later(shop, LIST, {"filter": conditions, "sort": sort})

        assert not any(plan.scans_collection for plan in found), name
        assert name in MAY_SORT or not any(plan.sorts_in_memory for plan in found), name


@pytest.mark.sample(3)
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(("slug", "deep"), [("all", True), ("few", True), ("few-1", False), ("shelf-3", False)])
async def test_every_filter_within_a_category_uses_an_index(
    shop: GatewayClient, slug: str, deep: bool, sort: str
) -> None:
    for name, conditions in FILTERS.items():
        variables = {"slug": slug, "deep": deep, "filter": conditions, "sort": sort}
        _, found = await plans(shop, BRANCH.replace("PREVIOUS", ""), variables)

        assert not any(plan.scans_collection for plan in found), name
        assert name in MAY_SORT or max(plan.rows_sorted for plan in found) <= FEW, name

    unfiltered = await first_and_later(shop, BRANCH, {"slug": slug, "deep": deep, "sort": sort})
    assert not any(plan.scans_collection or plan.sorts_in_memory for plan in unfiltered)


async def test_a_page_in_the_middle_of_a_common_filter_examines_little_more_than_it_shows(shop: GatewayClient) -> None:
    for sort in SORTS:
        for conditions in ({}, {"type": "FILM"}, {"genres": ["jazz", "drama"]}):
            text, variables = LIST.replace("PREVIOUS", ""), {"filter": conditions, "sort": sort}
            after = None
            for _ in range(20):
                data = await shop.data(text, {**variables, "after": after})
                after = data["products"]["pageInfo"]["endCursor"]
            _, found = await plans(shop, text, {**variables, "after": after})

            assert sum(plan.documents_examined for plan in found) <= 30, (sort, conditions)


async def test_counts_use_indexes(shop: GatewayClient) -> None:
    text = """
    query ($filter: ProductFilter) {
      products(filter: $filter, first: 1) {
        totalCount
        facets { types { count } genres { count } categories { count } prices { count } }
      }
    }
    """
    for name, conditions in FILTERS.items():
        _, found = await plans(shop, text, {"filter": conditions})

        # The estimated number of all products is kept for some seconds, so only some of the filters need it.
        own = [plan.name for plan in found if plan.name != "count products"]
        # A facet with a filter of its own counts another list.
        apart = [{"genres"}, {"typeNames"}, {"categoryIds"}, {"minPrice", "maxPrice"}]
        lists = 1 + sum(bool(names & conditions.keys()) for names in apart)
        assert own == ["find products", "aggregate products", *["aggregate products"] * lists]
        assert not any(plan.scans_collection for plan in found), name


async def test_categories_and_objects_by_id_use_indexes(shop: GatewayClient) -> None:
    text = """
    query ($ids: [ID!]!, $after: String) {
      nodes(ids: $ids) { id }
      product(sku: "s1") { title categories { parent { name } } }
      category(slug: "all") {
        children(first: 2) { nodes { name } pageInfo { endCursor } }
        descendants(first: 2, after: $after) { nodes { name } pageInfo { endCursor hasPreviousPage } }
      }
      categories { nodes { children(first: 2) { nodes { products(first: 2) { nodes { sku } } } } } }
    }
    """
    category = (await shop.data('{ category(slug: "few") { id } }'))["category"]["id"]
    ids = [category, *(Kind.encode_id("Product", f"s{number}") for number in range(30))]
    data, first = await plans(shop, text, {"ids": ids})
    after = data["category"]["descendants"]["pageInfo"]["endCursor"]
    _, later = await plans(shop, text, {"ids": ids, "after": after})

    assert not any(plan.scans_collection or plan.sorts_in_memory for plan in (*first, *later))


async def test_accounts_and_transfers_use_indexes(shop: GatewayClient) -> None:
    mine, theirs = await open_account(shop.db, 100), await open_account(shop.db)
    made = (await shop.result("transfer", transfer_input(mine, theirs)))["transfer"]["id"]
    text = """
    query ($ids: [ID!]!) {
      viewer { accounts { name pendingTransfers { id } } }
      nodes(ids: $ids) { ... on Account { name } ... on Transfer { source { name } destination { name } } }
    }
    """

    assert len(await assert_indexed(shop, text, {"ids": [mine, made]})) == 4


async def test_mutations_use_indexes(shop: GatewayClient) -> None:
    root, other = await create_category(shop), await create_category(shop)
    child = await create_category(shop, parentId=root["id"])
    made = await create_product(shop)
    mine, theirs = await open_account(shop.db, 100), await open_account(shop.db)
    writes = [
        ("createCategory", category_input(parentId=root["id"], idempotencyKey="one")),
        ("renameCategory", {"id": root["id"], "name": "Other", "slug": f"{root['slug']}-x"}),
        ("moveCategory", {"id": child["id"], "newParentId": other["id"]}),
        ("deleteCategory", {"id": child["id"], "idempotencyKey": "two"}),
        ("createProduct", product_input(categoryIds=[other["id"]], idempotencyKey="three")),
        ("updateProduct", {"id": made["id"], "nonce": made["nonce"], "categoryIds": [root["id"]]}),
        ("deleteProduct", {"id": made["id"], "nonce": made["nonce"], "idempotencyKey": "four"}),
        ("openAccount", {"name": "Savings", "idempotencyKey": "five"}),
        ("deposit", deposit_input(mine)),
        ("transfer", transfer_input(mine, theirs)),
        ("transfer", transfer_input(mine, theirs, 1_000)),
    ]
    for mutation, given in writes:
        assert await assert_indexed(shop, MUTATIONS[mutation], {"input": given})


async def test_imports_jobs_and_checks_use_indexes(shop: GatewayClient, file: Path) -> None:
    mine, theirs = await open_account(shop.db, 100), await open_account(shop.db)
    with crashing(shop, 5):
        await shop.ask(MUTATIONS["transfer"], {"input": transfer_input(mine, theirs)})
    categories = [category("few", "Renamed"), category("new", "New", "few")]
    products = [product(sku="s1", categories=["few"]), product(sku="fresh", categories=["few-1"]), product(sku="s2")]

    async def imported(subject: str, given: list[dict[str, Any]]) -> None:
        assert (await put(shop.db, subject, file, given, shop.state.resources)).bad == []

    async def jobs() -> None:
        for job in JOBS:
            await job.run(Job.Run(shop.db, SystemClock().now() + timedelta(hours=1), shop.state.resources))

    async def checked() -> None:
        for invariant in INVARIANTS:
            assert not [problem async for problem in invariant.check(shop.db)]

    async def migrated() -> None:
        await shop.db["products"].update_many({"sku": {"$in": ["s5", "s6"]}}, {"$unset": {"schema_version": ""}})
        assert [count async for _, count in migrate(shop.db)] == [2]

    work: list[Callable[[], Awaitable[None]]] = [
        lambda: imported("categories", categories),
        lambda: imported("products", products),
        jobs,
        checked,
        migrated,
    ]
    for run in work:
        shop.commands.clear()
        await run()
        # A change stream reads the oplog, which has no indexes.
        sent = [one for one in shop.commands.sent if "$changeStream" not in str(one.get("pipeline"))]
        for command in sent:
            for plan in await explain(shop.db, command):
                shown = f"{plan.name} {command.get('filter')}"
                assert shown in MAY_SCAN or not plan.scans_collection, shown
                assert not plan.sorts_in_memory, shown


async def test_every_index_is_created_and_creating_them_again_changes_nothing(shop: GatewayClient) -> None:
    async def present() -> dict[str, list[str]]:
        return {
            spec.name: sorted([index["name"] async for index in await shop.db[spec.name].list_indexes()])
            for spec in COLLECTIONS
            if spec.indexes
        }

    before = await present()
    created = {name: names async for name, names in create_indexes(shop.db)}

    assert await present() == before
    for spec in COLLECTIONS:
        assert len(created[spec.name]) == len(spec.indexes)
        assert set(created[spec.name]) <= set(before.get(spec.name, ()))


@pytest.mark.both_drivers
async def test_rebuild_replaces_an_index_that_another_version_defined_differently(db: Database) -> None:
    products = db[PRODUCTS.name]
    await products.drop_index("search")
    await products.create_indexes([IndexModel([("title", "text")], name="search", default_language="english")])
    await products.drop_index("sku_1")
    await products.create_indexes([IndexModel([("sku", 1)], name="by_sku")])

    made = {collection: names async for collection, names in create_indexes(db, rebuild=True)}

    found = {index["name"]: index async for index in await products.list_indexes()}
    assert set(made[PRODUCTS.name]) | {"_id_"} <= set(found)
    assert found["search"]["default_language"] == "none"
    assert found["sku_1"]["unique"] is True


@pytest.mark.both_drivers
async def test_a_start_keeps_an_index_that_another_version_defined_differently(db: Database) -> None:
    products = db[PRODUCTS.name]
    await products.drop_index("search")
    await products.drop_index("schema_version_1")
    await products.create_indexes([IndexModel([("title", "text")], name="other_search", default_language="english")])

    async for _ in create_indexes(db):
        pass

    found = await products.index_information()
    assert found["other_search"]["default_language"] == "english"
    assert "search" not in found
    assert "schema_version_1" in found


@pytest.mark.both_drivers
async def test_creating_the_indexes_again_changes_nothing(db: Database) -> None:
    before = await db[PRODUCTS.name].index_information()

    async for _ in create_indexes(db):
        pass

    assert await db[PRODUCTS.name].index_information() == before
