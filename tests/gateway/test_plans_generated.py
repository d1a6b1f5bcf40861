"""Compiled plans give the answers of the reference.

The operations are generated. Some documents lack fields or have wrong types, and some resolvers fail.
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

from portico.gateway import outages
from portico.gateway.operations.plans.on_error import ON_ERROR
from portico.resolvers.catalog import product_facets
from portico.resolvers.paging import Listing, Page
from portico.testing.kits import Known
from tests.support import domains
from tests.support.everything import create_everything
from tests.support.harness import IS_SOAK, GatewayClient
from tests.support.operations import Request, as_client_request, comparable

# Each generated operation is sent in several forms.
EXAMPLES = int(os.environ.get("PLANS_EXAMPLES", "2500" if IS_SOAK else "12"))
VARIANTS = 20 if IS_SOAK else 4
SEED = int(os.environ["PLANS_SEED"]) if "PLANS_SEED" in os.environ else None
DAMAGE: tuple[Any, ...] = (None, 7, -1.5, "text", {}, [None], True, ["a", 3], 2**60)
PATHS = ("description", "pricing.list", "pricing.currency", "pricing", "shipping", "properties", "details", "nonce")
# Invalid keys, in place of keys of related documents.
UNFIT: tuple[tuple[str, dict[str, Any], str, Any], ...] = (
    ("products", {"sku": "sku-6"}, "category_ids", 7),
    ("products", {"sku": "sku-3"}, "category_ids", [["x"]]),
    ("categories", {"slug": "jazz"}, "parent", {}),
    ("cms.nodes", {"slug": "entry-1"}, "parent", [1]),
    ("comments", {"text": "Below."}, "parent", {"a": 1}),
    ("transfers", {}, "source", [1]),
)

SCHEMA = domains.SCHEMA._schema
# Parsing the schema takes a second, which only the worker that runs the test has to spend.
OPERATIONS = st.deferred(
    lambda: queries(
        print_schema(SCHEMA),
        custom_scalars={
            "DateTime": st.just("2012-03-09T20:55:36.000Z").map(nodes.String),
            "BigInt": st.integers(0, 5_000).map(nodes.Int),
            "JSON": st.text(max_size=5).map(nodes.String),
        },
        allow_x00=False,
    )
)


@pytest.fixture
async def shop(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> GatewayClient:
    """A gateway with objects of every type. Some documents are damaged, and some reads fail."""
    KNOWN.update(await create_everything(gateway))
    rng = random.Random(5)
    for number in range(9, 12):
        change = {"$set": {rng.choice(PATHS): rng.choice(DAMAGE)}}
        await gateway.db["products"].update_one({"sku": f"sku-{number}", "pricing": {"$type": "object"}}, change)
    for collection, where, path, value in UNFIT:
        done = await gateway.db[collection].update_one(where, {"$set": {path: value}})
        assert done.modified_count == 1, (collection, where)
    monkeypatch.setattr(product_facets, "find_facets", _failing(product_facets.find_facets, lambda args: args[1]))
    monkeypatch.setattr(Page, "has_previous", _failing(Page.has_previous, lambda args: args[0].listing))
    # Faults are frequent here, and logging each of them takes longer than everything else.
    monkeypatch.setattr(outages, "logger", structlog.testing.CapturingLogger)
    return gateway


def _failing(read: Any, listing_of: Callable[[Any], Listing]) -> Any:
    """The read, which always fails for some listings, regardless of batching."""

    async def failing(*args: Any) -> Any:
        if len(repr(listing_of(args))) % 3 == 0:
            raise RuntimeError("a fault of the resolver")
        return await read(*args)

    return failing


# graphql-core sometimes does not await the siblings of a failed field. Python warns when it collects their coroutines.
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
async def test_a_generated_operation_gets_the_answer_of_the_reference(
    shop: GatewayClient, text: str, seed: int
) -> None:
    for number in range(VARIANTS):
        request = as_client_request(SCHEMA, text, KNOWN, seed + number)

        on_error = BEHAVIORS[(seed + number) % len(BEHAVIORS)]

        compiled, reference = [await _answer(shop, name, request, on_error) for name in EXECUTORS]

        assert comparable(compiled) == comparable(reference), (request, on_error)
        COUNTS["with errors" if "errors" in reference else "without errors"] += 1


@pytest.fixture(autouse=True, scope="module")
def compared() -> Iterator[None]:
    """Print what was compared. Fail if almost all operations have errors."""
    yield
    sys.stderr.write(f"\ncompared: {dict(COUNTS)}\n")
    assert COUNTS["without errors"] > COUNTS["with errors"] / 10


EXECUTORS = ("compiled", "reference")
# What the requests send as `onError`.
BEHAVIORS = (None, *ON_ERROR)
KNOWN: Known = {}
COUNTS: Counter[str] = Counter()


async def _answer(shop: GatewayClient, executor: Any, request: Request, on_error: str | None) -> dict[str, Any]:
    shop.state.executor.name = executor
    sent = {"operation": request.operation, "on_error": on_error}
    return dict((await shop.ask(request.text, request.variables, **sent)).body)
