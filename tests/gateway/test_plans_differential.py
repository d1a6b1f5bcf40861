"""Compiled plans give the answers that graphql-core gives: data, errors, paths, and the order of keys."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
import pytest
from graphql import (
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    get_named_type,
    is_leaf_type,
    is_required_argument,
)

from portico.gateway.operations.plans.related import Keys, RelationEntry
from portico.resolvers.catalog.products import PRODUCTS
from tests.support.domains import SCHEMA
from tests.support.harness import IS_SOAK, GatewayClient, category_input, create_category, create_product
from tests.support.operations import comparable

OPERATIONS = 400 if IS_SOAK else 32
SKUS = "{ products(first: 2) { nodes { sku } } }"
# Invalid values that the test puts at random paths of documents.
DAMAGE: tuple[Any, ...] = (None, 7, -1.5, "text", [], {}, [None], True, ["a", 3], [["x"]], 2**60)
PATHS = (
    "title",
    "description",
    "pricing",
    "pricing.list",
    "pricing.currency",
    "pricing.pct_savings",
    "shipping",
    "shipping.dimensions",
    "properties",
    "issue_date",
    "details",
    "details.artist",
    "details.genres",
    "details.tracks",
    "nonce",
    "category_ids",
)


@pytest.fixture
async def shop(gateway: GatewayClient) -> GatewayClient:
    """Products of each type, in categories three levels deep."""
    music = await create_category(gateway, name="Music", slug="music")
    jazz = await create_category(gateway, name="Jazz", slug="jazz", parentId=music["id"])
    bop = await create_category(gateway, name="Bop", slug="bop", parentId=jazz["id"])
    film = {"directors": ["One"], "actors": ["Two", "Three"], "genres": ["Drama"], "aspectRatio": "1.85:1"}
    for number in range(12):
        await create_product(
            gateway,
            **{
                0: {"categoryIds": [bop["id"], jazz["id"]], "shipping": {"weight": 1.5}},
                1: {"type": "Film", "details": film, "issueDate": "1999-03-31T00:00:00.000Z"},
                2: {"type": "Lamp", "details": {"watts": [1, 2.5, None], "nested": {"a": {"b": True}}}},
            }[number % 3],
        )
    return gateway


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_random_selections_get_the_answer_of_the_reference(shop: GatewayClient, seed: int) -> None:
    rng = random.Random(seed)
    generator = _Generator(SCHEMA._schema, rng)
    for _ in range(OPERATIONS // 4):
        operation = generator.operation()

        assert await _answer(shop, operation) == await _reference(shop, operation), operation


# graphql-core sometimes does not await the siblings of a failed field. Python warns when it collects their coroutines.
@pytest.mark.sample(4)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", [5, 6, 7, 8])
async def test_damaged_documents_cause_the_errors_of_the_reference(shop: GatewayClient, seed: int) -> None:
    rng = random.Random(seed)
    generator = _Generator(SCHEMA._schema, rng)
    for _ in range(OPERATIONS // 8):
        await _damage(shop, rng)
        operation = generator.operation()

        assert await _agree(shop, operation), operation

    # The siblings of a failed field end after the answer, before the loop closes.
    await asyncio.sleep(0.2)
    gc.collect()


async def test_a_relation_to_a_deleted_object_is_left_out(shop: GatewayClient) -> None:
    await shop.db["categories"].delete_one({"slug": "bop"})

    data = await shop.data("{ products { nodes { categories { slug breadcrumbs { name } } } } }")

    assert {"slug": "jazz", "breadcrumbs": [{"name": "Music"}]} in [
        category for node in data["products"]["nodes"] for category in node["categories"]
    ]


# Relations with invalid keys

UNFIT: tuple[tuple[str, str, Any], ...] = (
    *(("products", "category_ids", value) for value in (7, 0, False, "", "text", {}, {"a": 1}, [["x"]], [{"a": 1}])),
    *(("categories", "parent", value) for value in ({}, {"a": 1}, [], [1], 0, "text")),
)


async def test_an_invalid_key_is_an_error_only_for_its_field(shop: GatewayClient) -> None:
    one, other = [node["sku"] for node in (await shop.data(SKUS))["products"]["nodes"]][:2]
    bop, jazz = [(await shop.db["categories"].distinct("_id", {"slug": slug}))[0] for slug in ("bop", "jazz")]
    await shop.db["products"].update_one({"sku": one}, {"$set": {"category_ids": [jazz]}})
    await shop.db["products"].update_one({"sku": other}, {"$set": {"category_ids": [bop]}})
    # The categories of both products are read at one level. The keys of one are known before those of the other.
    text = f"""{{
        product(sku: "{one}") {{ title categories {{ name parent {{ name parent {{ name }} }} }} }}
        other: product(sku: "{other}") {{ title categories {{ name parent {{ slug }} }} }}
        category(slug: "bop") {{ slug parent {{ slug }} }}
    }}"""
    for collection, path, value in UNFIT:
        where = {"sku": other} if collection == "products" else {"slug": "bop"}
        async with _damaged(shop, collection, where, path, value):
            answers = await _both(shop, text, {})

        assert answers[0] == answers[1], (collection, path, value)
        assert answers[0]["data"] != b"null"
    assert (await _both(shop, text, {}))[0]["errors"] == []


@contextlib.asynccontextmanager
async def _damaged(
    shop: GatewayClient, collection: str, where: dict[str, Any], path: str, value: Any
) -> AsyncIterator[None]:
    """Change the document at this path, and restore it at the end of the block."""
    was = await shop.db[collection].find_one_and_update(where, {"$set": {path: value}})
    assert was is not None
    yield
    await shop.db[collection].replace_one({"_id": was["_id"]}, was)


async def test_a_fault_in_one_read_is_not_lost_when_another_read_ends_in_the_same_turn(
    shop: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(groups: list[list[RelationEntry]], **options: Any) -> Any:
        if groups[0][0][0].response_name == "above":
            raise RuntimeError("a fault outside of any field")
        return Keys(groups, **options)

    monkeypatch.setattr("portico.gateway.operations.plans.run.Keys", breaking)
    ids = await shop.db["categories"].distinct("_id")
    await shop.db["products"].update_many({}, {"$set": {"category_ids": ids}})
    # The loader already has these categories, so this read ends at once.
    text = """{ products { nodes {
        categories { name parent { name parent { id } } }
        more: categories { above: parent { slug } }
    } } }"""

    answer = await shop.ask(text)

    assert (answer.status, answer.codes) == (500, ["INTERNAL"])
    assert "data" not in answer.body


# Conditions

NULL = "query ($a: Boolean = true) "
NULL_CONDITIONS = (
    NULL + '{ category(slug: "bop") @include(if: $a) { name } }',
    NULL + '{ category(slug: "bop") @skip(if: $a) { name } }',
    NULL + "{ products(first: 2) { totalCount nodes { sku title @include(if: $a) } } }",
    NULL + '{ category(slug: "bop") { parent { ... @skip(if: $a) { name } } } viewer { subject } }',
    NULL + "{ products(first: 2) { edges { node { ... on Film { ...F @include(if: $a) } sku } } } }"
    " fragment F on Film { genres }",
    NULL + '{ category(slug: "none") { name @include(if: $a) } ... @skip(if: true) { a: __typename @skip(if: $a) } }',
)


async def test_a_null_condition_causes_the_error_of_the_reference(shop: GatewayClient) -> None:
    for text in NULL_CONDITIONS:
        answers = await _both(shop, text, {"a": None})

        assert answers[0] == answers[1], text
        assert bool(answers[0]["errors"] or answers[0]["nulls"]) is ("none" not in text)


@pytest.mark.parametrize("directive", ["include", "skip"])
async def test_a_mutation_with_a_null_condition_writes_nothing(gateway: GatewayClient, directive: str) -> None:
    text = f"""mutation ($input: CreateCategoryInput!, $a: Boolean = true) {{
        first: createCategory(input: $input) {{ __typename }}
        createCategory(input: $input) @{directive}(if: $a) {{ __typename }}
    }}"""
    variables = {"input": category_input(slug="new"), "a": None}

    answers = await _both(gateway, text, variables)

    assert answers[0] == answers[1]
    assert answers[0]["data"] == orjson.dumps(None)
    assert await gateway.db["categories"].count_documents({}) == 0


async def test_each_operation_of_a_document_has_its_own_conditions(shop: GatewayClient) -> None:
    text = """
    query A($a: Boolean!) { __typename @include(if: $a) ...Named }
    query B($a: [ID!]!) { nodes(ids: $a) { id } }
    query C($a: ProductFilter) { products(first: 2, filter: $a) { nodes { sku } } }
    query D($a: String!, $b: Boolean!) { category(slug: $a) { ...Shown } }
    query E($a: Boolean = false, $b: Boolean = false) { ...Named category(slug: "bop") { ...Shown } }
    fragment Named on Query { jazz: category(slug: "jazz") { slug name @skip(if: $a) } }
    fragment Shown on Category { ...Inner slug }
    fragment Inner on Category { name @include(if: $b) }
    """
    slug = {"category": {"slug": "bop"}}
    cases: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("A", {"a": False}, {"jazz": {"slug": "jazz", "name": "Jazz"}}),
        ("A", {"a": True}, {"__typename": "Query", "jazz": {"slug": "jazz"}}),
        ("B", {"a": ["x"]}, {"nodes": [None]}),
        ("B", {"a": []}, {"nodes": []}),
        ("C", {"a": {"genres": ["none"]}}, {"products": {"nodes": []}}),
        ("D", {"a": "bop", "b": True}, {"category": {"name": "Bop", "slug": "bop"}}),
        *(("D", {"a": "bop", "b": False}, slug) for _ in range(2)),
        *(("D", {"a": f"none-{number}", "b": False}, {"category": None}) for number in range(9)),
        ("E", {"b": True}, {"jazz": {"slug": "jazz", "name": "Jazz"}, "category": {"name": "Bop", "slug": "bop"}}),
        ("E", {"a": None}, {"jazz": None, "category": {"slug": "bop"}}),
    )
    for name, variables, expected in cases:
        answers = await _both(shop, text, variables, name)

        assert answers[0] == answers[1], (name, variables)
        assert orjson.loads(answers[0]["data"]) == expected, (name, variables)
    operation = shop.state.executor.operations.get(text)
    # A variable that is not a condition adds no plan.
    assert len(operation.plans) == 7


async def _both(
    shop: GatewayClient, text: str, variables: dict[str, Any], operation: str | None = None
) -> tuple[dict[str, Any], ...]:
    """The answers of the compiled plans and of the reference."""
    answers = []
    for name in ("compiled", "reference"):
        shop.state.executor.name = name
        answers.append(comparable((await shop.ask(text, variables, operation=operation)).body))
    return tuple(answers)


async def _agree(shop: GatewayClient, operation: str) -> bool:
    """Whether the reference gives the same answer. If several fields fail at once, only the first failure is reported.
    The order varies, even in the reference, so compare several times.
    """
    for _ in range(5):
        if _are_alike(await _answer(shop, operation), await _reference(shop, operation)):
            return True
    return False


def _are_alike(one: bytes, other: bytes) -> bool:
    """Whether data and errors are equal. Errors beside the error that made their parent null may differ: the
    specification lets an executor omit them (section 6.4.4), and they depend on which field failed first.
    """
    if one == other:
        return True
    answers = [orjson.loads(one), orjson.loads(other)]
    if orjson.dumps(answers[0]["data"]) != orjson.dumps(answers[1]["data"]):
        return False
    here, there = (_by_null(answer["data"], answer["errors"]) for answer in answers)
    return here.keys() == there.keys() and all(
        found == there[null]
        if any(len(error["path"]) == len(null) for error in found + there[null])
        else any(error in there[null] for error in found)
        for null, found in here.items()
    )


def _by_null(data: Any, errors: list[dict[str, Any]]) -> dict[tuple[str | int, ...], list[dict[str, Any]]]:
    """The errors, by the path of the null that they caused."""
    found: dict[tuple[str | int, ...], list[dict[str, Any]]] = {}
    for error in errors:
        value, depth = data, 0
        while value is not None:
            value, depth = value[error["path"][depth]], depth + 1
        found.setdefault(tuple(error["path"][:depth]), []).append(error)
    return found


async def _damage(shop: GatewayClient, rng: random.Random) -> None:
    if rng.random() < 0.1:
        category = {"slug": rng.choice(["bop", "jazz"])}
        await shop.db["categories"].update_one(category, {"$set": {"parent": rng.choice(DAMAGE)}})
        return
    skus = await shop.db[PRODUCTS.name].distinct("sku")
    path = rng.choice(PATHS)
    parent = path.rpartition(".")[0]
    where: dict[str, Any] = {"sku": rng.choice(skus)}
    if parent:
        where[parent] = {"$type": "object"}
    # MongoDB cannot index two arrays in one index.
    is_indexed = path.startswith(("title", "pricing", "issue_date"))
    values = [value for value in DAMAGE if not (is_indexed and isinstance(value, list))]
    change = {"$unset": {path: ""}} if rng.random() < 0.2 else {"$set": {path: rng.choice(values)}}
    await shop.db[PRODUCTS.name].update_one(where, change)


async def _answer(shop: GatewayClient, operation: str) -> bytes:
    return _comparable((await shop.ask(operation)).body)


async def _reference(shop: GatewayClient, operation: str) -> bytes:
    shop.state.executor.name = "reference"
    try:
        return _comparable((await shop.ask(operation)).body)
    finally:
        shop.state.executor.name = "compiled"


def _comparable(body: Mapping[str, Any]) -> bytes:
    """The answer as text. Keys keep their order; errors are sorted, because their order is not defined."""
    errors = [{**error, "extensions": {"code": error["extensions"]["code"]}} for error in body.get("errors", [])]
    return orjson.dumps({"data": body.get("data"), "errors": sorted(errors, key=str)})


class _Generator:
    """Generates random queries of the catalog: aliases, fragments, directives, interfaces, connections."""

    def __init__(self, schema: GraphQLSchema, rng: random.Random) -> None:
        self._schema = schema
        self._rng = rng

    def operation(self) -> str:
        products = f"products(first: 20) {self._selection('ProductConnection', 5)}"
        category = f'category(slug: "bop") {self._selection("Category", 4)}'
        return "{ " + " ".join(self._rng.sample([products, category], self._rng.randint(1, 2))) + " }"

    def _selection(self, type_name: str, depth: int) -> str:
        graphql_type = self._schema.type_map[type_name]
        assert isinstance(graphql_type, GraphQLObjectType | GraphQLInterfaceType)
        names = self._rng.sample(sorted(graphql_type.fields), k=min(len(graphql_type.fields), self._rng.randint(1, 5)))
        parts = [part for name in names if (part := self._field(graphql_type, name, depth))]
        if isinstance(graphql_type, GraphQLInterfaceType):
            possible = [found.name for found in self._schema.get_possible_types(graphql_type) if depth]
            chosen = [name for name in possible if self._rng.random() < 0.5]
            parts += [f"... on {name} {self._selection(name, depth - 1)}" for name in chosen]
        parts += ["__typename"] * (not parts or self._rng.random() < 0.2)
        return "{ " + " ".join(parts) + " }"

    def _field(self, parent: GraphQLObjectType | GraphQLInterfaceType, name: str, depth: int) -> str:
        field = parent.fields[name]
        named = get_named_type(field.type)
        if name == "facets" or any(is_required_argument(argument) for argument in field.args.values()):
            return ""
        # A response name belongs to a field of one type, so that fragments on several types do not conflict.
        text = f"{parent.name}_{name}: {name}" if self._rng.random() < 0.5 or parent.name != "Product" else name
        if not is_leaf_type(named):
            if depth == 0:
                return ""
            text += " " + self._directive() + self._selection(named.name, depth - 1)
        return text

    def _directive(self) -> str:
        return self._rng.choice(["", "", "", "@include(if: true) ", "@skip(if: false) ", "@skip(if: true) "])
