"""How much of an answer is left when single reads fail, by what the request says in `onError`."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
import structlog.testing

from portico.gateway import outages
from portico.loaders.batching import Loader
from tests.support.harness import IS_SOAK, GatewayClient, create_category, create_product, new_key

SHARE = 0.01
REQUESTS = 1_000 if IS_SOAK else 50
PRODUCTS = 20
# The page of a shop: 20 products with their stock, categories and breadcrumbs, and the caller.
PAGE = """{
  products(first: 20) { nodes {
    id sku title pricing { retail { amount currency } }
    stock { available }
    categories { id slug name breadcrumbs { slug name } }
  } }
  viewer { subject accounts { id name } }
}"""


class Faults:
    """Lets a share of the reads of single objects fail, the same ones for each request with the same seed."""

    def __init__(self) -> None:
        self.seed: int | None = None

    def hits(self, *read: Any) -> bool:
        return self.seed is not None and random.Random(f"{self.seed} {read!r}").random() < SHARE


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    found = Faults()
    load, load_all = Loader.load, Loader.load_all

    def failing(self: Loader[Any, Any], key: Any) -> asyncio.Future[Any]:
        if not found.hits(key):
            return load(self, key)
        failed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        failed.set_exception(RuntimeError("the read failed"))
        return failed

    async def all_failing(self: Loader[Any, Any], keys: Iterable[Any]) -> Mapping[Any, Any]:
        values = dict(await load_all(self, keys))
        return {key: RuntimeError("the read failed") if found.hits(key) else value for key, value in values.items()}

    monkeypatch.setattr(Loader, "load", failing)
    monkeypatch.setattr(Loader, "load_all", all_failing)
    # Logging each fault takes longer than everything else.
    monkeypatch.setattr(outages, "logger", structlog.testing.CapturingLogger)
    return found


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from leaves(one)
    elif value is not None:
        yield value


async def test_null_keeps_more_of_an_answer_than_propagation_does(gateway: GatewayClient, faults: Faults) -> None:
    music = await create_category(gateway, slug="music")
    genres = [await create_category(gateway, slug=f"genre-{number}", parentId=music["id"]) for number in range(6)]
    for number in range(PRODUCTS):
        ids = [genres[number % 6]["id"], genres[(number + 1) % 6]["id"]]
        made = await create_product(gateway, categoryIds=ids)
        await gateway.result("restock", {"sku": made["sku"], "quantity": 5, "idempotencyKey": new_key()})
    whole = len(list(leaves(await gateway.data(PAGE))))
    kept = {"PROPAGATE": 0, "NULL": 0, "HALT": 0}
    failed = 0

    for faults.seed in range(REQUESTS):
        answers = {behavior: (await gateway.ask(PAGE, on_error=behavior)).body for behavior in kept}
        failed += "errors" in answers["NULL"]
        for behavior, answer in answers.items():
            kept[behavior] += len(list(leaves(answer["data"])))

    shares = {behavior: count / whole / REQUESTS for behavior, count in kept.items()}
    sys.stderr.write(f"\n{failed / REQUESTS:.0%} of the answers have errors; kept of the data: {shares}\n")
    assert shares["HALT"] < shares["PROPAGATE"] < shares["NULL"]
    assert shares["NULL"] > 0.95
