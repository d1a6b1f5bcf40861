"""At most two fields of an operation make MongoDB read a whole list: `facets`, `totalCount` and full-text search."""

from __future__ import annotations

import time
from typing import Any

import pytest

from portico.schema.fields import MAX_COSTLY
from portico.schema.kinds import Kind
from tests.support.aliases import aliased
from tests.support.harness import Answer, GatewayClient, create_category, create_product
from tests.support.sockets import EVENTS, listening, opened, subscribe

ID = Kind.encode_id("Category", "0" * 24)
TOTAL = "products(first: 1) { totalCount }"
FACETS = "products(first: 1) { facets { types { value } } }"
SEARCH = 'products(first: 1, filter: { search: "blue" }) { nodes { sku } }'


def assert_refused(answer: Answer, counted: str) -> None:
    assert "data" not in answer.body
    assert answer.codes == ["OPERATION_TOO_COMPLEX"], answer.body
    message = answer.body["errors"][0]["message"]
    assert message.startswith(f"The operation makes the database read whole lists: {counted}. "), message
    assert f"at most {MAX_COSTLY} " in message
    assert "Remove some of these fields" in message


@pytest.mark.parametrize(("selection", "name"), [(TOTAL, "totalCount"), (FACETS, "facets"), (SEARCH, "search")])
async def test_two_costly_fields_are_answered_and_three_are_refused(
    reader: GatewayClient, selection: str, name: str
) -> None:
    assert (await reader.ask("{" + aliased(selection, 2) + "}", token=None)).data
    assert_refused(await reader.ask("{" + aliased(selection, 3) + "}", token=None), f"`{name}` 3 times")
    assert_refused(await reader.ask("{" + aliased(selection, 60) + "}", token=None), f"`{name}` 60 times")


async def test_costly_fields_of_different_names_count_together(reader: GatewayClient) -> None:
    facets = f"products(first: 1) {{ {aliased('facets { types { value } }', 97)} }}"

    for fields, counted in (
        (f"a: {TOTAL} b: {FACETS} c: {SEARCH}", "`facets` once, `search` once, `totalCount` once"),
        # The aliases of one list count each.
        (facets, "`facets` 97 times"),
    ):
        assert_refused(await reader.ask(f"{{ {fields} }}"), counted)


async def test_one_search_with_count_and_facets_is_answered(reader: GatewayClient) -> None:
    text = '{ products(filter: { search: "blue" }) { totalCount facets { types { value } } nodes { sku } } }'

    assert await reader.data(text)
    assert_refused(
        await reader.ask(text.replace("{ totalCount", "{ more: totalCount totalCount")),
        "`facets` once, `totalCount` twice",
    )


@pytest.mark.parametrize("parents", ["categories(first: $n)", 'category(slug: "music") { children(first: $n)'])
async def test_a_costly_field_counts_once_for_each_parent_that_a_page_can_have(
    reader: GatewayClient, parents: str
) -> None:
    text = f"query ($n: Int = 50) {{ {parents} {{ nodes {{ {TOTAL} }} }} " + "}" * parents.count("{") + "}"

    assert [(await reader.ask(text, {"n": count})).codes for count in (2, 2.0)] == [[], []]
    for variables, times in (({"n": 3}, 3), ({"n": 100}, 100), ({}, 50)):
        assert_refused(await reader.ask(text, variables), f"`totalCount` {times} times")


async def test_a_costly_field_counts_below_lists_and_ids_and_edges(gateway: GatewayClient) -> None:
    category = await create_category(gateway)
    product = await create_product(gateway, categoryIds=[category["id"]])
    below = f"... on Category {{ {TOTAL} }}"

    listed = await gateway.ask(f'{{ product(sku: "{product["sku"]}") {{ categories {{ {TOTAL} }} }} }}')
    by_ids = await gateway.ask("query ($ids: [ID!]!) { nodes(ids: $ids) { " + below + " } }", {"ids": ["x"] * 100})
    by_edge = await gateway.ask(f"{{ categories(first: 3) {{ edges {{ node {{ {TOTAL} }} }} }} }}")
    single = await gateway.ask(f'{{ node(id: "{category["id"]}") {{ {below} }} }}')

    assert_refused(listed, "`totalCount` 10 times")
    assert_refused(by_ids, "`totalCount` 100 times")
    assert_refused(by_edge, "`totalCount` 3 times")
    assert single.data == {"node": {"products": {"totalCount": 1}}}


@pytest.mark.parametrize(
    ("definition", "given", "variables", "times"),
    [
        ("", f'["{ID}"]', {}, 1),
        ("", f'"{ID}"', {}, 1),
        ("", f'["{ID}", "{ID}", "{ID}"]', {}, 3),
        ("($ids: [ID!]!)", "$ids", {"ids": [ID]}, 1),
        ("($ids: [ID!]!)", "$ids", {"ids": ID}, 1),
        ("($ids: [ID!]!)", "$ids", {"ids": [ID, ID, ID]}, 3),
        (f'($ids: [ID!]! = ["{ID}", "{ID}"])', "$ids", {}, 2),
        (f'($ids: [ID!]! = ["{ID}", "{ID}", "{ID}"])', "$ids", {}, 3),
        ("($id: ID!)", "[$id, $id, $id]", {"id": ID}, 3),
    ],
)
async def test_a_costly_field_counts_once_for_each_requested_id(
    reader: GatewayClient, definition: str, given: str, variables: dict[str, Any], times: int
) -> None:
    text = f"query {definition} {{ nodes(ids: {given}) {{ ... on Category {{ {TOTAL} }} }} }}"

    answer = await reader.ask(text, variables)

    if times > MAX_COSTLY:
        assert_refused(answer, f"`totalCount` {times} times")
    else:
        assert answer.data == {"nodes": [None] * times}


async def test_a_longer_list_of_ids_counts_even_after_a_shorter_one_is_answered(gateway: GatewayClient) -> None:
    key = (await create_category(gateway))["id"]
    text = f"query ($ids: [ID!]!) {{ nodes(ids: $ids) {{ ... on Category {{ {TOTAL} }} }} }}"

    assert (await gateway.ask(text, {"ids": [key]})).data
    assert_refused(await gateway.ask(text, {"ids": [key] * 3}), "`totalCount` 3 times")
    assert (await gateway.ask(text, {"ids": [key] * 2})).data


async def test_fragments_that_merge_into_one_field_count_once(reader: GatewayClient) -> None:
    merged = "{ ...A ...B products(first: 1) { totalCount } }"
    fragments = "fragment A on Query { ...B products(first: 1) { totalCount } } fragment B on Query { ...C }"
    last = "fragment C on Query { products(first: 1) { totalCount ... { totalCount } } }"

    assert await reader.data(f"{merged} {fragments} {last}") == {"products": {"totalCount": 0}}


async def test_fragments_count_wherever_they_are_spread(reader: GatewayClient) -> None:
    text = f"{{ {aliased('products(first: 1) { ...F }', 3)} }}"

    answer = await reader.ask(text + " fragment F on ProductConnection { ... on ProductConnection { totalCount } }")

    assert_refused(answer, "`totalCount` 3 times")


async def test_fragments_that_double_at_every_level_are_refused_at_once(reader: GatewayClient) -> None:
    fragments = [
        f"fragment F{n} on Category {{ a: parent {{ ...F{n + 1} }} b: parent {{ ...F{n + 1} }} }}" for n in range(12)
    ]
    text = '{ category(slug: "a") { ...F0 } } ' + " ".join(fragments) + f" fragment F12 on Category {{ {TOTAL} }}"

    # A busy machine does not change the CPU time.
    begun = time.process_time()
    answer = await reader.ask(text)

    assert time.process_time() - begun < 2
    assert answer.codes == ["OPERATION_TOO_COMPLEX"]
    assert "with each fragment wherever it is spread" in answer.body["errors"][0]["message"]


async def test_types_that_exclude_each_other_count_once(reader: GatewayClient) -> None:
    below = (
        f"discussion {{ subject {{ ... on Product {{ discussion {{ subject {{ ... on Category {{ {TOTAL} }} }} }} }} }}"
    )
    selections = " ".join(f"... on {name} {{ {below} }} }}" for name in ("AudioAlbum", "Film", "GeneralProduct"))

    assert await reader.data('{ product(sku: "none") { ' + selections + " } }") == {"product": None}


async def test_the_directives_of_each_request_decide_what_counts(reader: GatewayClient) -> None:
    text = (
        "query ($all: Boolean = false, $none: Boolean!) {"
        f" a: {TOTAL} b: {TOTAL} c: {TOTAL.replace('totalCount', 'totalCount @include(if: $all) __typename')}"
        f" ... @skip(if: $none) {{ d: {TOTAL} }} }}"
    )

    assert (await reader.ask(text, {"none": True})).data
    assert_refused(await reader.ask(text, {"none": False}), "`totalCount` 3 times")
    assert_refused(await reader.ask(text, {"none": False, "all": True}), "`totalCount` 4 times")
    assert_refused(await reader.ask(text, {"none": True, "all": True}), "`totalCount` 3 times")
    assert (await reader.ask(text, {"none": True, "all": False})).data


@pytest.mark.parametrize(
    ("definition", "given", "variables"),
    [
        ("$f: ProductFilter", "$f", {"f": {"search": "blue"}}),
        ('$f: ProductFilter = { search: "blue" }', "$f", {}),
        ("$f: String", "{ search: $f }", {"f": "blue"}),
        ('$f: String = "blue"', "{ search: $f }", {}),
    ],
)
async def test_a_search_counts_wherever_its_text_comes_from(
    reader: GatewayClient, definition: str, given: str, variables: dict[str, Any]
) -> None:
    def text(times: int) -> str:
        return f"query ({definition}) {{" + aliased(f"products(filter: {given}) {{ nodes {{ sku }} }}", times) + "}"

    without: dict[str, Any] = {"f": {"type": "FILM", "search": None} if "ProductFilter" in definition else None}

    for _ in range(2):
        assert (await reader.ask(text(3), without)).data
        assert (await reader.ask(text(2), variables)).data
        assert_refused(await reader.ask(text(3), variables), "`search` 3 times")


async def test_only_the_operation_that_runs_counts(reader: GatewayClient) -> None:
    text = f"query Two {{ {aliased(TOTAL, 2)} }} query Three {{ {aliased(TOTAL, 3)} }}"

    assert (await reader.ask(text, operation="Two")).data
    assert_refused(await reader.ask(text, operation="Three"), "`totalCount` 3 times")


async def test_costly_fields_in_a_mutation_payload_count(gateway: GatewayClient) -> None:
    payload = f"... on CategoryPayload {{ category {{ {aliased(TOTAL, 3)} }} }}"
    text = f'mutation {{ createCategory(input: {{ name: "A", slug: "a" }}) {{ {payload} }} }}'

    assert_refused(await gateway.ask(text), "`totalCount` 3 times")
    assert await gateway.data('{ category(slug: "a") { id } }') == {"category": None}


async def test_costly_fields_in_an_event_count(reader: GatewayClient) -> None:
    below = f"... on Product {{ categories {{ {TOTAL} }} }}"
    text = f'subscription {{ commentPosted(discussionId: "x") {{ discussion {{ subject {{ {below} }} }} }} }}'

    async with listening(reader) as port, opened(port) as socket:
        await socket.init()
        await socket.send(subscribe("1", text))
        refused = await socket.receive()
    streamed = await reader.http.post("/graphql", json={"query": text}, headers=EVENTS)

    assert refused["type"] == "error"
    assert refused["payload"][0]["extensions"] == {"code": "OPERATION_TOO_COMPLEX"}
    assert "OPERATION_TOO_COMPLEX" in streamed.text


async def test_a_batch_of_operations_is_refused(reader: GatewayClient) -> None:
    assert (await reader.http.post("/graphql", json=[{"query": f"{{ {TOTAL} }}"}] * 3)).status_code == 400


async def test_the_schema_says_which_fields_are_costly(reader: GatewayClient) -> None:
    found = await reader.data(
        """
        {
          connection: __type(name: "ProductConnection") { fields { name description } }
          filter: __type(name: "ProductFilter") { inputFields { name description } }
        }
        """
    )

    described = {
        one["name"]
        for one in [*found["connection"]["fields"], *found["filter"]["inputFields"]]
        if f"at most {MAX_COSTLY} of" in one["description"]
    }
    assert described == {"totalCount", "facets", "search"}
