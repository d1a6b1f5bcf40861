"""How many commands a named operation may send to MongoDB: the `budgets.json` of each domain lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from portico.schema.kinds import Kind
from portico.testing.kits import merged
from tests.accounts.support.accounts import deposit_input, open_account, transfer_input
from tests.catalog.support.catalog import add_categories, add_products, album, film, product
from tests.support.aliases import aliased
from tests.support.harness import (
    MUTATIONS,
    GatewayClient,
    category_input,
    create_category,
    create_product,
    product_input,
)
from tests.support.importing import category
from tests.support.kits import kits

pytestmark = pytest.mark.both_drivers

BUDGETS = merged([kit.budgets for kit in kits().values()])
TREE = [
    *(category(name.lower(), name) for name in ("Music", "Films", "Books")),
    *(category(f"{root}-{number}", f"{root} {number}", root) for root in ("music", "films") for number in range(5)),
    *(category(f"music-0-{number}", f"Deep {number}", "music-0") for number in range(5)),
]
LEAVES = [one["slug"] for one in TREE if "parent" in one]
PRODUCTS = [
    (album, film, product)[number % 3](
        sku=f"p{number}", title=f"Blue {number}", categories=[LEAVES[number % 15], LEAVES[number * 4 % 15]]
    )
    for number in range(120)
]

READS: dict[str, str] = {
    "a product": '{ product(sku: "p1") { title } }',
    "a product with its categories and their breadcrumbs": """
        { product(sku: "p1") { title categories { name breadcrumbs { slug } } } }
    """,
    "a list of 20 products with their categories and breadcrumbs": """
        { products { nodes { title pricing { retail { amount } } categories { name breadcrumbs { slug } } } } }
    """,
    "a list of 100 products with their categories' parents": """
        { products(first: 100) { nodes { title categories { name parent { name } } } } }
    """,
    "a category": '{ category(slug: "music-0") { name breadcrumbs { slug name } } }',
    "a category page": """
        {
          category(slug: "music-0") {
            name
            breadcrumbs { slug name }
            parent { slug }
            children { nodes { slug name } }
            products(sort: PRICE_ASC) {
              nodes { sku title pricing { retail { amount } } }
              pageInfo { hasNextPage endCursor }
            }
          }
        }
    """,
    "a category page with counts": """
        {
          category(slug: "music") {
            products { totalCount facets { genres { value count } prices { min count } } nodes { sku } }
          }
        }
    """,
    "products of a category without what is below": """
        { category(slug: "music") { products(includeDescendants: false) { nodes { sku } } } }
    """,
    "the tree with products and their categories": """
        {
          categories(first: 10) {
            nodes {
              name
              children(first: 10) {
                nodes { name products(first: 2) { nodes { title categories { name parent { name } } } } }
              }
            }
          }
        }
    """,
    "every list of every category": """
        {
          categories {
            nodes {
              children(first: 3) { nodes { children(first: 2) { nodes { name } } } }
              descendants(first: 3) { nodes { name } }
              products(first: 2) { nodes { sku } }
              own: products(first: 2, includeDescendants: false) { nodes { sku } }
            }
          }
        }
    """,
    "a search in two categories": """
        { categories(first: 2) { nodes { products(filter: { search: "blue" }, sort: RELEVANCE) { nodes { sku } } } } }
    """,
    "siblings through aliases": """
        {
          a: product(sku: "p1") { title } b: product(sku: "p2") { title } none: product(sku: "none") { title }
          c: category(slug: "music") { name } d: category(slug: "films") { name }
          e: products(first: 3) { nodes { sku } } f: products(first: 3, sort: PRICE_ASC) { nodes { sku } }
        }
    """,
    "siblings through fragments": """
        { a: product(sku: "p1") { ...Shown } b: product(sku: "p2") { ... on Node { ...Shown } } }
        fragment Shown on Product { title ... on Film { actors } ...More }
        fragment More on Product { categories { name } }
    """,
    "nodes and edges of one list": "{ products { nodes { sku } edges { cursor node { title } } } }",
    "a page with the next and the one before": "{ products { pageInfo { hasNextPage hasPreviousPage } } }",
    "a count": "{ products { totalCount } }",
    "counts of four kinds": """
        { products { facets { types { count } genres { count } categories { count } prices { count } } } }
    """,
    "introspection": "{ __schema { queryType { name } } viewer { subject } }",
    "a list without its rows": "{ products { __typename } }",
}


@pytest.fixture
async def shop(gateway: GatewayClient) -> GatewayClient:
    await add_categories(gateway.db, TREE)
    await add_products(gateway.db, PRODUCTS)
    gateway.commands.clear()
    return gateway


async def sent(gateway: GatewayClient, query: str, variables: Mapping[str, Any] | None = None) -> list[str]:
    gateway.commands.clear()
    await gateway.data(query, variables)
    return sorted(gateway.commands.names())


async def test_every_read_sends_the_commands_of_its_budget(shop: GatewayClient) -> None:
    for name, query in READS.items():
        assert await sent(shop, query) == BUDGETS[name], name


async def test_every_mutation_sends_the_commands_of_its_budget(gateway: GatewayClient) -> None:
    root, other = await create_category(gateway), await create_category(gateway)
    child = await create_category(gateway, parentId=root["id"])
    made, gone = [await create_product(gateway, categoryIds=[root["id"]]) for _ in range(2)]
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    writes: dict[str, tuple[str, dict[str, Any]]] = {
        "create a root category": ("createCategory", category_input()),
        "create a category": ("createCategory", category_input(parentId=root["id"])),
        "create a category by a key": ("createCategory", category_input(parentId=root["id"], idempotencyKey="k")),
        "rename a category": ("renameCategory", {"id": child["id"], "name": "Other"}),
        "move a category": ("moveCategory", {"id": child["id"], "newParentId": other["id"]}),
        "delete a category": ("deleteCategory", {"id": child["id"]}),
        "create a product": ("createProduct", product_input()),
        "create a product in a category": ("createProduct", product_input(categoryIds=[root["id"]])),
        "edit a product": ("updateProduct", {"id": made["id"], "nonce": made["nonce"], "title": "Other"}),
        "delete a product": ("deleteProduct", {"id": gone["id"], "nonce": gone["nonce"]}),
        "open an account": ("openAccount", {"name": "Savings"}),
        "make a deposit": ("deposit", deposit_input(mine)),
        "transfer money": ("transfer", transfer_input(mine, theirs)),
        "transfer too much": ("transfer", transfer_input(mine, theirs, 1_000)),
    }
    for name, (mutation, given) in writes.items():
        assert await sent(gateway, _bare(MUTATIONS[mutation]), {"input": given}) == BUDGETS[name], name


def _bare(mutation: str) -> str:
    """The mutation without its selection, so that only the write is counted."""
    return mutation[: mutation.index("__typename")] + "__typename ... on UserError { message } } }"


def test_the_file_lists_the_commands_of_every_operation_in_order() -> None:
    assert all(commands == sorted(commands) for commands in BUDGETS.values())
    assert set(READS) <= set(BUDGETS)


async def test_nodes_of_two_kinds_are_read_with_one_command_for_each_kind(shop: GatewayClient) -> None:
    text = """
    query ($ids: [ID!]!) {
      nodes(ids: $ids) { ... on Category { name } ... on Film { title } ... on Product { sku } }
    }
    """

    ids = [Kind.encode_id("Category", key) for key in await shop.db["categories"].distinct("_id")]
    ids += [Kind.encode_id("Product", f"p{number}") for number in range(60)]
    assert await sent(shop, text, {"ids": ids}) == BUDGETS["nodes of two kinds"]


async def test_a_later_page_is_one_command_and_one_more_for_has_previous_page(shop: GatewayClient) -> None:
    after = (await shop.data("{ products { pageInfo { endCursor } } }"))["products"]["pageInfo"]["endCursor"]
    # Aliases share a command.
    aliases = aliased("hasPreviousPage", 20)

    for name, selection in (
        ("a later page", "nodes { sku } pageInfo { hasNextPage endCursor }"),
        ("a later page and whether it is the first", "nodes { sku } pageInfo { hasPreviousPage }"),
        (
            "a later page and whether it is the first",
            f"pageInfo {{ {aliases} }} again: pageInfo {{ {aliases} }}",
        ),
    ):
        text = f"query ($after: String) {{ products(after: $after) {{ {selection} }} }}"
        assert await sent(shop, text, {"after": after}) == BUDGETS[name], selection


async def test_aliases_of_the_lists_of_a_viewer_share_their_commands(gateway: GatewayClient) -> None:
    def text(count: int) -> str:
        parts = ("accounts { name }", "characters { name }", "cart { id }", "hiddenPosts { nodes { postId } }")
        aliases = (f"a{n}x{number}: {part}" for n in range(count) for number, part in enumerate(parts))
        return f"{{ viewer {{ {' '.join(aliases)} }} }}"

    assert await sent(gateway, text(10)) == await sent(gateway, text(1))


async def test_accounts_and_transfers_are_read_with_one_command_for_each_kind(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db, owner="another")
    made = [(await gateway.result("transfer", transfer_input(mine, theirs, 1)))["transfer"]["id"] for _ in range(3)]
    listed = "{ viewer { accounts { name balance { amount } pendingTransfers { id } } } }"
    text = "query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Transfer { source { name } destination { name } } } }"

    assert await sent(gateway, listed) == BUDGETS["the viewer's accounts"]
    assert await sent(gateway, text, {"ids": made}) == BUDGETS["transfers with their accounts"]


async def test_a_page_costs_the_same_however_many_categories_its_products_are_in(gateway: GatewayClient) -> None:
    """There are more documents than the server sends in a first batch by default."""
    await add_categories(gateway.db, [{"slug": f"c{number}", "name": "C"} for number in range(300)])
    shelves = [[f"c{number * 3 + place}" for place in range(3)] for number in range(100)]
    await add_products(gateway.db, [album(categories=slugs) for slugs in shelves])

    found = await sent(gateway, "{ products(first: 100) { nodes { categories { name } } } }")
    assert found == ["find categories", "find products"]


async def test_a_page_of_a_hundred_lists_is_one_command(gateway: GatewayClient) -> None:
    roots = [{"slug": f"c{number:02}", "name": f"{number:02}"} for number in range(100)]
    below = [category(f"{root['slug']}-{number}", f"{number}", root["slug"]) for root in roots for number in range(3)]
    await add_categories(gateway.db, [*roots, *below])
    children = "children(first: 2) { nodes { slug } pageInfo { hasNextPage } }"
    text = f"{{ categories(first: 100) {{ nodes {{ slug {children} }} }} }}"

    assert await sent(gateway, text) == ["aggregate categories", "find categories"]
    data = await gateway.data(text)

    for node, root in zip(data["categories"]["nodes"], roots, strict=True):
        shown = [{"slug": f"{root['slug']}-{number}"} for number in range(2)]
        assert node == {"slug": root["slug"], "children": {"nodes": shown, "pageInfo": {"hasNextPage": True}}}


async def test_a_large_subtree_is_counted_and_read_with_one_command_each(gateway: GatewayClient) -> None:
    # Of more than 200 categories, the products are counted, and then found by the index that fits.
    below = [{"slug": f"c{number}", "name": "C", "parent": "top"} for number in range(450)]
    await add_categories(gateway.db, [{"slug": "top", "name": "Top"}, *below])

    found = await sent(gateway, '{ category(slug: "top") { products { nodes { sku } } } }')
    assert found == ["count products", "find categories", "find categories", "find products"]
