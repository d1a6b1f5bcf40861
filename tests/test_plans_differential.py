"""Answers made by functions are those that graphql-core makes: data, errors, paths, and the order of keys."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Mapping
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

from resolvers.products import PRODUCTS
from schema import create_schema

from .harness import GatewayClient, create_category, create_product

OPERATIONS = 400
# Values that are wrong somewhere, put at paths of documents at random.
DAMAGE: tuple[Any, ...] = (None, 7, -1.5, "text", [], {}, [None], True, ["a", 3], 2**60)
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
)


@pytest.fixture
async def shop(gateway: GatewayClient) -> GatewayClient:
    """Products of every type in categories three deep; some documents are damaged."""
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
async def test_any_selection_is_answered_as_the_reference_answers_it(shop: GatewayClient, seed: int) -> None:
    rng = random.Random(seed)
    generator = _Generator(create_schema()._schema, rng)
    for _ in range(OPERATIONS // 4):
        operation = generator.operation()

        assert await _answer(shop, operation) == await _reference(shop, operation), operation


# graphql-core leaves what stands beside a failed field unawaited now and then; Python tells of it when it is collected.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", [5, 6, 7, 8])
async def test_damaged_documents_make_the_errors_that_the_reference_makes(shop: GatewayClient, seed: int) -> None:
    rng = random.Random(seed)
    generator = _Generator(create_schema()._schema, rng)
    for _ in range(OPERATIONS // 8):
        await _damage(shop, rng)
        operation = generator.operation()

        assert await _agree(shop, operation), operation

    # What stood beside a failed field is settled behind the answer; the loop must not close over it.
    await asyncio.sleep(0.2)
    gc.collect()


async def test_a_relation_to_what_is_gone_is_left_out(shop: GatewayClient) -> None:
    await shop.db["categories"].delete_one({"slug": "bop"})

    data = await shop.data("{ products { nodes { categories { slug breadcrumbs { name } } } } }")

    assert {"slug": "jazz", "breadcrumbs": [{"name": "Music"}]} in [
        category for node in data["products"]["nodes"] for category in node["categories"]
    ]


async def _agree(shop: GatewayClient, operation: str) -> bool:
    """Whether the answer is one that the reference gives. Where several fields fail at once, whichever fails first is
    the one that is reported, and the reference itself answers now one, now another.
    """
    for _ in range(5):
        if await _answer(shop, operation) == await _reference(shop, operation):
            return True
    return False


async def _damage(shop: GatewayClient, rng: random.Random) -> None:
    skus = await shop.db[PRODUCTS.name].distinct("sku")
    path = rng.choice(PATHS)
    parent = path.rpartition(".")[0]
    where: dict[str, Any] = {"sku": rng.choice(skus)}
    if parent:
        where[parent] = {"$type": "object"}
    # The server takes no two arrays into one index.
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
    """The answer as text, in its own order of keys; errors side by side come in any order."""
    errors = [{**error, "extensions": {"code": error["extensions"]["code"]}} for error in body.get("errors", [])]
    return orjson.dumps({"data": body.get("data"), "errors": sorted(errors, key=str)})


class _Generator:
    """Makes queries of the catalog at random: aliases, fragments, directives, interfaces, connections."""

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
        # A response name belongs to one type's field, so that fragments of several types do not clash.
        text = f"{parent.name}_{name}: {name}" if self._rng.random() < 0.5 or parent.name != "Product" else name
        if not is_leaf_type(named):
            if depth == 0:
                return ""
            text += " " + self._directive() + self._selection(named.name, depth - 1)
        return text

    def _directive(self) -> str:
        return self._rng.choice(["", "", "", "@include(if: true) ", "@skip(if: false) ", "@skip(if: true) "])
