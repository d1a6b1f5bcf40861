"""Plans answer as the reference does.

Generated operations, on documents that miss fields or hold wrong types, with resolvers that fail.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog.testing
from graphql import print_schema
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seed_of_hypothesis
from hypothesis import strategies as st
from hypothesis_graphql import nodes, queries

from gateway import execution
from resolvers import product_search
from resolvers.paging import Listing, Page
from schema import create_schema

from .harness import IS_SOAK, GatewayClient, create_category, create_product
from .operations import as_a_client_asks, comparable

# Each generated operation is asked in several forms.
EXAMPLES = int(os.environ.get("PLANS_EXAMPLES", "2500" if IS_SOAK else "110"))
VARIANTS = 20
SEED = int(os.environ["PLANS_SEED"]) if "PLANS_SEED" in os.environ else None
DAMAGE: tuple[Any, ...] = (None, 7, -1.5, "text", {}, [None], True, ["a", 3], 2**60)
PATHS = ("description", "pricing.list", "pricing.currency", "pricing", "shipping", "properties", "details", "nonce")

SCHEMA = create_schema()._schema
OPERATIONS = queries(
    print_schema(SCHEMA),
    custom_scalars={
        "DateTime": st.just("2012-03-09T20:55:36.000Z").map(nodes.String),
        "BigInt": st.integers(0, 5_000).map(nodes.Int),
        "JSON": st.text(max_size=5).map(nodes.String),
    },
    allow_x00=False,
)


@pytest.fixture
async def shop(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> GatewayClient:
    """Products of every type in categories three deep; some documents are damaged, and some reads fail."""
    parent = None
    for slug in ("music", "jazz", "bop"):
        more: dict[str, Any] = {} if parent is None else {"parentId": parent["id"]}
        parent = await create_category(gateway, name=slug.title(), slug=slug, **more)
    assert parent is not None
    film = {"directors": ["One"], "actors": ["Two", "Three"], "genres": ["Drama"], "aspectRatio": "1.85:1"}
    kinds: list[dict[str, Any]] = [
        {"categoryIds": [parent["id"]], "shipping": {"weight": 1.5}},
        {"type": "Film", "details": film, "issueDate": "1999-03-31T00:00:00.000Z"},
        {"type": "Lamp", "details": {"watts": [1, 2.5, None], "nested": {"a": {"b": True}}}},
    ]
    for number in range(12):
        await create_product(gateway, sku=f"sku-{number}", **kinds[number % 3])
    rng = random.Random(5)
    for number in range(9, 12):
        change = {"$set": {rng.choice(PATHS): rng.choice(DAMAGE)}}
        await gateway.db["products"].update_one({"sku": f"sku-{number}", "pricing": {"$type": "object"}}, change)
    monkeypatch.setattr(product_search, "find_facets", _failing(product_search.find_facets, lambda args: args[1]))
    monkeypatch.setattr(Page, "has_previous", _failing(Page.has_previous, lambda args: args[0].listing))
    # Faults are many here, and to write each into the log takes longer than all the rest.
    monkeypatch.setattr(execution, "logger", structlog.testing.CapturingLogger)
    return gateway


def _failing(read: Any, listing_of: Callable[[Any], Listing]) -> Any:
    """The read of one listing, which fails for some of them, and for those always: however reads are batched."""

    async def failing(*args: Any) -> Any:
        if len(repr(listing_of(args))) % 3 == 0:
            raise RuntimeError("a fault of the resolver")
        return await read(*args)

    return failing


# graphql-core leaves what stands beside a failed field unawaited now and then; Python tells of it when it is collected.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(7_200)
@seed_of_hypothesis(SEED or 0)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=SEED is None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(text=OPERATIONS, seed=st.integers(0, 2**32 - 1))
async def test_a_generated_operation_is_answered_as_the_reference_answers_it(
    shop: GatewayClient, text: str, seed: int
) -> None:
    if not KNOWN:
        data = await shop.data('{ category(slug: "bop") { id } products(first: 12) { nodes { id sku } } }')
        ids = [data["category"]["id"], *(node["id"] for node in data["products"]["nodes"])]
        KNOWN.update(id=ids, ids=ids, sku=[node["sku"] for node in data["products"]["nodes"]], slug=["music", "bop"])
    for number in range(VARIANTS):
        request = as_a_client_asks(SCHEMA, text, KNOWN, seed + number)

        compiled, reference = [await _answer(shop, name, request.text, request.variables) for name in EXECUTORS]

        assert comparable(compiled) == comparable(reference), (request.text, request.variables)
        COUNTS["with errors" if "errors" in reference else "without errors"] += 1


@pytest.fixture(autouse=True, scope="module")
def enough() -> Iterator[None]:
    """What was compared is told; operations that only fail would show little."""
    yield
    sys.stderr.write(f"\ncompared: {dict(COUNTS)}\n")
    assert COUNTS["without errors"] > COUNTS["with errors"] / 10


EXECUTORS = ("compiled", "reference")
KNOWN: dict[str, list[str]] = {}
COUNTS: Counter[str] = Counter()


async def _answer(shop: GatewayClient, executor: Any, text: str, variables: dict[str, Any]) -> dict[str, Any]:
    shop.state.executor.name = executor
    return dict((await shop.ask(text, variables)).body)
