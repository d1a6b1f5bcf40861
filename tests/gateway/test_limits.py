"""The limits of one request, and the checks of its values."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from graphql import get_introspection_query

from portico.gateway.operations.documents import MAX_ERRORS
from portico.gateway.settings import Settings
from portico.schema.kinds import Kind
from tests.support.aliases import aliased
from tests.support.harness import Answer, GatewayClient, running

PAGES = "query ($n: Int) { categories(first: $n) { nodes { children(first: $n) { nodes { id } } } } }"
NESTED = "{ categories { nodes { children { nodes { children { nodes { children { nodes { id } } } } } } } } }"


TYPES = aliased("fields { type { name } }", 300)


def chained(selection: str, levels: int, last: str = "id") -> str:
    """Returns a query with this many fragments of categories, each of which spreads the `NEXT` one."""
    fragments = [f"fragment F{n} on Category {{ {selection.replace('NEXT', f'F{n + 1}')} }}" for n in range(levels)]
    return '{ category(slug: "a") { ...F0 } } ' + " ".join(fragments) + f" fragment F{levels} on Category {{ {last} }}"


def assert_too_complex(answer: Answer) -> None:
    assert answer.codes == ["OPERATION_TOO_COMPLEX"], answer.body
    assert "data" not in answer.body


async def quickly(gateway: GatewayClient, query: str, variables: dict[str, Any] | None = None) -> Answer:
    """Return the answer. Fail if it takes more than two seconds of CPU time, which a busy machine does not change."""
    begun = time.process_time()
    answer = await gateway.ask(query, variables)
    assert time.process_time() - begun < 2
    return answer


async def test_an_operation_has_a_limited_number_of_tokens(reader: GatewayClient) -> None:
    most = f"{{{aliased('__typename', 1332)}}}"

    assert len(await reader.data(most)) == 1332
    assert_too_complex(await reader.ask(most.replace("}", " b:__typename}")))


async def test_an_operation_has_a_limited_depth(reader: GatewayClient) -> None:
    def chain(levels: int) -> str:
        return '{ category(slug: "a") ' + "{ parent " * (levels - 2) + "{ id }" + " }" * (levels - 2) + " }"

    assert await reader.data(chain(20)) == {"category": None}
    answer = await reader.ask(chain(21))

    assert_too_complex(answer)
    assert answer.body["errors"][0]["message"] == "The operation can have at most 20 levels of fields; got 21."


async def test_depth_counts_through_fragments(reader: GatewayClient) -> None:
    assert_too_complex(await reader.ask(chained("parent { ...NEXT }", 20)))


@pytest.mark.parametrize(
    ("sizes", "is_allowed"),
    [
        ({"n": 10}, True),
        ({"n": 70}, True),
        ({"n": 71}, False),
        ({"n": 100}, False),
        ({"n": 100.0}, False),
        ({"n": None}, True),
        ({}, True),
    ],
)
async def test_the_cost_of_nested_pages_depends_on_their_sizes(
    settings: Settings, sizes: dict[str, Any], is_allowed: bool
) -> None:
    async with running(replace(settings, max_cost=21 + 70 * (31 + 70 * 2))) as gateway:
        answer = await gateway.ask(PAGES, sizes)

        if is_allowed:
            assert answer.data == {"categories": {"nodes": []}}
        else:
            assert_too_complex(answer)


async def test_the_cost_of_a_known_operation_is_checked_again_for_other_page_sizes(
    reader: GatewayClient,
) -> None:
    three = PAGES.replace("{ id }", "{ products(first: $n) { nodes { id } } }")
    for _ in range(2):
        assert (await reader.ask(three, {"n": 10})).data
        assert_too_complex(await reader.ask(three, {"n": 100}))
        assert_too_complex(await reader.ask(three, {"n": 100.0}))


async def test_a_null_or_default_page_size_costs_as_much_as_its_page(reader: GatewayClient) -> None:
    by_null = NESTED.replace("categories", "categories(first: null)").replace("children", "children(first: null)")
    by_variable = "query ($n: Int) " + by_null.replace("null", "$n")
    by_default = "query ($n: Int = 100) " + by_null.replace("null", "$n")

    assert_too_complex(await reader.ask(NESTED))
    assert_too_complex(await reader.ask(by_null))
    assert_too_complex(await reader.ask(by_variable))
    assert_too_complex(await reader.ask(by_variable, {"n": None}))
    assert (await reader.ask(by_default, {"n": 5})).data
    assert_too_complex(await reader.ask(by_default))


async def test_reading_a_whole_list_costs_more(settings: Settings) -> None:
    async with running(replace(settings, max_cost=500)) as gateway:
        assert await gateway.data("{ products(first: 100) { totalCount nodes { id } } }")
        assert_too_complex(await gateway.ask("{ products(first: 1) { facets { types { value } } } }"))


async def test_a_large_page_with_facets_is_allowed(reader: GatewayClient) -> None:
    selection = "totalCount facets { types { value count } } nodes { id title }"

    assert await reader.data(f"{{ products(first: 100) {{ {selection} }} }}")


async def test_an_operation_makes_a_bounded_number_of_writes(gateway: GatewayClient) -> None:
    def carts(count: int) -> str:
        return f"mutation {{ {aliased('createCart { __typename }', count)} }}"

    assert (await gateway.ask(carts(49), token=None)).codes == []
    assert_too_complex(await gateway.ask(carts(50), token=None))


@pytest.mark.parametrize("leaf", ["title", "__typename"])
@pytest.mark.parametrize("selection", ["LEAVES", "... on Product { LEAVES }", "...F"])
async def test_many_aliases_of_one_leaf_count_each(reader: GatewayClient, leaf: str, selection: str) -> None:
    def text(aliases: int) -> str:
        leaves = aliased(leaf, aliases)
        fragment = f"fragment F on Product {{ {leaves} }}" if selection == "...F" else ""
        return f"{{ products(first: 100) {{ nodes {{ {selection.replace('LEAVES', leaves)} }} }} }} {fragment}"

    assert await reader.data(text(400)) == {"products": {"nodes": []}}
    assert_too_complex(await quickly(reader, text(1_000)))


async def test_fragments_count_wherever_they_are_spread(reader: GatewayClient) -> None:
    def text(spreads: int) -> str:
        products = aliased('product(sku: "none") { ...F }', spreads)
        return f"{{ {products} }} fragment F on Product {{ {aliased('title', 500)} }}"

    assert await reader.data(text(7)) == {f"a{number}": None for number in range(7)}
    answer = await quickly(reader, text(8))
    assert_too_complex(answer)
    assert answer.body["errors"][0]["message"] == (
        "An operation can select at most 4,000 fields, with each fragment wherever it is spread; got 4,008. "
        "Select fewer fields, or send separate operations."
    )


async def test_a_page_costs_its_rows_even_if_it_shows_none_of_them(settings: Settings) -> None:
    page = "products(first: 100) { pageInfo { hasNextPage } }"
    async with running(replace(settings, max_cost=450)) as gateway:
        assert await gateway.data(f"{{ a: {page} b: {page} }}")
        assert_too_complex(await gateway.ask(f"{{ a: {page} b: {page} c: {page} }}"))


async def test_long_texts_cost_more(reader: GatewayClient) -> None:
    walls = aliased("user(id: $id) { wall(first: 100) { nodes { ... on StatusPost { text } } } }", 10)

    assert_too_complex(await reader.ask(f"query ($id: ID!) {{ {walls} }}", {"id": Kind.encode_id("User", "u")}))


async def test_long_aliases_cost_more(reader: GatewayClient) -> None:
    query = "{ products(first: 100) { nodes { %s: title } } }"

    assert await reader.data(query.replace("%s", "a" * 1_000))
    assert_too_complex(await reader.ask(query.replace("%s", "a" * 25_000)))


async def test_a_type_name_without_an_alias_is_free(settings: Settings) -> None:
    text = "{ __typename categories(first: 10) { __typename nodes { __typename id } } }"

    async with running(replace(settings, max_cost=21 + 10 * 2)) as gateway:
        assert await gateway.data(text)
        assert_too_complex(await gateway.ask(text.replace("{ __typename id", "{ type: __typename id")))


# Lists other than connections

CATEGORIES = "products(first: $n) { nodes { categories { slug } } }"


async def test_lists_below_pages_cost_as_much_as_they_may_contain(reader: GatewayClient) -> None:
    nested = CATEGORIES.replace("slug", CATEGORIES)

    assert (await reader.ask(f"query ($n: Int) {{ {nested} }}", {"n": 4})).data
    assert_too_complex(await reader.ask(f"query ($n: Int) {{ {nested} }}", {"n": 40}))


@pytest.mark.parametrize(
    ("query", "cost"),
    [
        # A page of 2, each with 20 tracks.
        ("{ products(first: 2) { nodes { ... on AudioAlbum { tracks } } } }", 21 + 2 * (1 + 20)),
        # A page of 2, each with 10 categories of 8 breadcrumbs.
        ("{ products(first: 2) { nodes { categories { breadcrumbs { slug } } } } }", 21 + 2 * (1 + 1 + 10 * (1 + 8))),
        ('{ nodes(ids: ["a"]) { id } }', 1 + 10 + 1),
        ('{ chooseAds(siteId: "s", zoneId: "z", keywords: ["a", "b", "c", "d"]) { __typename } }', 1 + 100 + 2),
        ("{ viewer { roles accounts { id } } }", 1 + 7 + 1 + 100),
        ("{ products(first: 1) { totalCount } }", 21 + 2 + 101),
    ],
)
async def test_a_list_costs_its_declared_length(settings: Settings, query: str, cost: int) -> None:
    async with running(replace(settings, max_cost=cost)) as gateway:
        assert "OPERATION_TOO_COMPLEX" not in (await gateway.ask(query)).codes
    async with running(replace(settings, max_cost=cost - 1)) as gateway:
        assert_too_complex(await gateway.ask(query))


@pytest.mark.parametrize("field", ["", "name"])
async def test_fragments_that_double_at_every_level_are_answered_at_once(reader: GatewayClient, field: str) -> None:
    answer = await quickly(reader, chained(f"{field} ...NEXT ...NEXT", 150, "__typename"))

    assert answer.codes == (["OPERATION_TOO_COMPLEX"] if field else [])


HUGE = {
    "many aliases of a list": f"{{ {aliased('categories(first: 100) { nodes { id name slug } }', 250)} }}",
    "fragments that double their fields": chained("a: parent { ...NEXT } b: parent { ...NEXT }", 12),
    **{f"{levels} nested fragments": chained("parent { ...NEXT }", levels) for levels in (100, 190, 400)},
    "one field many times": f"{{ {'__typename ' * 3_900} }}",
    "one list many times": f"{{ {'categories { nodes { id } } ' * 500} }}",
    "one list in many inline fragments": f"{{ {'... on Query { categories { nodes { id } } } ' * 300} }}",
    "one list in many sizes": "{"
    + " ".join(f"categories(first: {n}) {{ nodes {{ id }} }}" for n in range(1, 300))
    + "}",
    "the schema many times": f"{{ {aliased('__schema { types { fields { args { name } } } }', 220)} }}",
    "the types many times": f"{{ __schema {{ types {{ ...A }} }} }} fragment A on __Type {{ {TYPES} }}",
}


@pytest.mark.parametrize("query", HUGE.values(), ids=HUGE)
async def test_a_huge_operation_is_refused_quickly(reader: GatewayClient, query: str) -> None:
    assert_too_complex(await quickly(reader, query))


async def test_a_tool_may_read_the_whole_schema(reader: GatewayClient) -> None:
    options = dict.fromkeys(("specified_by_url", "directive_is_repeatable", "input_value_deprecation"), True)

    found = await reader.data(get_introspection_query(**options))

    assert found["__schema"]["queryType"]["name"] == "Query"


CIRCLE = """{ category(slug: "a") { ...A } }
  fragment A on Category { parent { ...B } } fragment B on Category { parent { ...A } }"""


@pytest.mark.parametrize(
    "query",
    [
        "subscription { x }",
        "subscription { __typename }",
        "fragment A on Category { id }",
        "type A { b: Int } query { __typename }",
        "{ ... @defer { __typename } }",
        "{ viewer }",
        "{ nonsense }",
        "{ category { id } }",
        '{ category(slug: "a", nonsense: 1) { id } }',
        "{ category(slug: 1) { id } }",
        '{ products(sort: "NEWEST") { nodes { id } } }',
        "{ products(filter: { nonsense: 1 }) { nodes { id } } }",
        CIRCLE,
        # Introspection has a limited depth.
        "{ __schema { types { fields { type { fields { type { fields { name } } } } } } } }",
    ],
)
async def test_an_operation_that_the_schema_does_not_allow_is_refused(reader: GatewayClient, query: str) -> None:
    assert (await reader.ask(query)).codes == ["GRAPHQL_VALIDATION_FAILED"]


async def test_the_number_of_reported_errors_is_limited(reader: GatewayClient) -> None:
    many = await quickly(reader, "{" + " ".join(f"nonsense{number}" for number in range(3_000)) + "}")
    values = await quickly(reader, "query ($ids: [ID!]!) { nodes(ids: $ids) { id } }", {"ids": [None] * 20_000})

    assert many.codes == ["GRAPHQL_VALIDATION_FAILED"] * (MAX_ERRORS + 1)
    assert set(values.codes) == {"BAD_USER_INPUT"}
    assert len(values.codes) <= 100
