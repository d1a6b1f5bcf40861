"""Several gateways in one process, with different domains and databases: each serves its own, and only that."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.domains import BUILT_IN
from portico.gateway.settings import Settings
from portico.schema.kinds import Kind
from tests.comments.support import discussions
from tests.support import library
from tests.support.databases import database
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, create_product, run_jobs, running
from tests.support.interruptions import crashing
from tests.support.roles import ROLES

ORDERS = [("everything", "catalog"), ("catalog", "everything")]
OUTSIDE = "library"
NODE = "query ($id: ID!) { node(id: $id) { __typename id } }"
POSTED = "subscription ($id: ID!) { commentPosted(discussionId: $id) { text } }"


class Pair:
    """A gateway with all domains and one of a package, and one with the catalog alone. Each can be closed."""

    def __init__(self, gateways: Mapping[str, GatewayClient], closing: Mapping[str, AsyncExitStack]) -> None:
        self.everything, self.catalog = (gateways[name].as_caller("m", *ROLES) for name in ("everything", "catalog"))
        self._closing = closing

    async def close(self, name: str) -> None:
        await self._closing[name].aclose()


@contextlib.asynccontextmanager
async def started(
    order: tuple[str, ...], settings: Settings, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Pair]:
    """Starts both gateways in this order, each with a database of its own."""
    assert settings.mongodb_uri is not None
    with database(str(settings.mongodb_uri)) as other, library.served(monkeypatch):
        chosen = {
            "everything": replace(settings, domains=",".join((*BUILT_IN, OUTSIDE))),
            "catalog": replace(settings, domains="catalog", database=other),
        }
        gateways: dict[str, GatewayClient] = {}
        closing: dict[str, AsyncExitStack] = {}
        async with AsyncExitStack() as all_closing:
            for name in order:
                closing[name] = await all_closing.enter_async_context(AsyncExitStack())
                gateways[name] = await closing[name].enter_async_context(running(chosen[name], clock=clock))
            yield Pair(gateways, closing)


@pytest.fixture(params=ORDERS, ids=" then ".join)
async def pair(
    request: pytest.FixtureRequest, settings: Settings, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Pair]:
    async with started(request.param, settings, clock, monkeypatch) as both:
        yield both


async def node(gateway: GatewayClient, kind: str, key: object) -> Any:
    """Returns the node with this id, or the code of the error."""
    answer = await gateway.ask(NODE, {"id": Kind.encode_id(kind, key)})
    return answer.codes[0] if answer.codes else answer.data["node"]


async def test_each_gateway_answers_the_queries_of_its_domains(pair: Pair) -> None:
    product = await create_product(pair.everything)
    await pair.everything.db["readers"].insert_one({"_id": "anna"})

    both = [
        await gateway.data("{ products(first: 5) { nodes { sku } } }") for gateway in (pair.everything, pair.catalog)
    ]
    reader = '{ reader(name: "anna") { name } }'
    refused = await pair.catalog.ask(reader)
    stock = await pair.catalog.ask("{ products(first: 5) { nodes { stock { available } discussion { id } } } }")

    assert [found["products"]["nodes"] for found in both] == [[{"sku": product["sku"]}], []]
    assert await pair.everything.data(reader) == {"reader": {"name": "anna"}}
    assert "Cannot query field 'reader'" in refused.body["errors"][0]["message"]
    assert len(stock.body["errors"]) == 2


async def test_each_gateway_knows_the_ids_of_its_kinds(pair: Pair) -> None:
    product = await create_product(pair.everything)
    await pair.everything.db["shelfs"].insert_one({"_id": "poems", "owner": None})

    assert (await node(pair.everything, "Product", product["sku"]))["id"] == product["id"]
    assert await node(pair.everything, "Discussion", "5f43a1b2c3d4e5f601234567") is None
    assert (await node(pair.everything, "Shelf", "poems"))["__typename"] == "Shelf"
    assert await node(pair.catalog, "Product", product["sku"]) is None
    assert await node(pair.catalog, "Discussion", "5f43a1b2c3d4e5f601234567") is None
    assert await node(pair.catalog, "Shelf", "poems") is None


async def delete(gateway: GatewayClient, product: Mapping[str, Any], **fields: Any) -> str:
    result = await gateway.result("deleteProduct", {"id": product["id"], "nonce": product["nonce"], **fields})
    return str(result["__typename"])


async def discussed(gateway: GatewayClient) -> tuple[dict[str, Any], str]:
    """Returns a new product, and the id of the discussion about it."""
    product = await create_product(gateway)
    opened = await gateway.result("openDiscussion", {"subjectId": product["id"], "storage": "DOCUMENTS"})
    return product, opened["discussion"]["id"]


async def test_a_deletion_closes_the_attachments_of_its_gateway_alone(pair: Pair) -> None:
    (product, discussion), plain = await discussed(pair.everything), await create_product(pair.catalog)
    pair.catalog.commands.clear()

    deleted = [await delete(pair.everything, product), await delete(pair.catalog, plain)]

    assert deleted == ["DeletedPayload"] * 2
    assert (await pair.everything.data(NODE, {"id": discussion}))["node"] is None
    assert not [name for name in pair.catalog.commands.names() if "discussions" in name or "stock" in name]


async def test_a_repeated_mutation_gets_the_answer_of_its_gateway(pair: Pair) -> None:
    product, _ = await discussed(pair.everything)
    keyed = {"idempotencyKey": "one", "id": product["id"], "nonce": product["nonce"], "title": "New"}

    first, again = [await pair.everything.result("updateProduct", keyed) for _ in range(2)]
    elsewhere = await pair.catalog.result("updateProduct", keyed)

    assert first == again
    assert first["product"]["title"] == "New"
    assert elsewhere["__typename"] == "NotFound"


async def test_jobs_finish_what_their_gateway_has_left(pair: Pair, clock: SettableClock) -> None:
    product, discussion = await discussed(pair.everything)
    with crashing(pair.everything, 3):
        await pair.everything.ask(
            "mutation ($input: DeleteProductInput!) { deleteProduct(input: $input) { __typename } }",
            {"input": {"id": product["id"], "nonce": product["nonce"]}},
        )
    left = await pair.everything.db["products"].count_documents({"deleting": {"$exists": True}})
    clock.advance(seconds=31)

    await run_jobs(pair.catalog, clock)
    left_by_the_other = await pair.everything.db["products"].count_documents({"deleting": {"$exists": True}})
    await run_jobs(pair.everything, clock)

    assert (left, left_by_the_other) == (1, 1)
    assert await pair.everything.db["products"].count_documents({"deleting": {"$exists": True}}) == 0
    assert (await pair.everything.data(NODE, {"id": discussion}))["node"]["id"] == discussion
    assert {"finish-comments", "deliver-posts"} <= {job.name for job in pair.everything.domains.jobs}
    assert {"finish-comments", "deliver-posts"}.isdisjoint(job.name for job in pair.catalog.domains.jobs)


async def test_the_doctor_checks_each_database_with_the_hosts_of_its_gateway(pair: Pair) -> None:
    product, _ = await discussed(pair.everything)
    await create_product(pair.catalog)
    for gateway in (pair.everything, pair.catalog):
        await assert_invariants(gateway)
    await pair.everything.db["products"].delete_one({"sku": product["sku"]})

    found = [
        problem.text
        for invariant in pair.everything.domains.invariants
        async for problem in invariant.problems(pair.everything.db)
    ]

    assert f"its subject Product:{product['sku']} is gone" in found
    assert len(pair.catalog.domains.invariants) < len(pair.everything.domains.invariants)


async def test_the_metrics_show_each_gateway_alone(pair: Pair) -> None:
    for _ in range(3):
        await pair.everything.data("{ viewer { subject } }")

    texts = [(await gateway.http.get("/metrics")).text for gateway in (pair.everything, pair.catalog)]

    gauges = [{gauge.name for gauge in gateway.domains.gauges} for gateway in (pair.everything, pair.catalog)]
    only = gauges[0] - gauges[1]
    assert only
    assert all(name in texts[0] and name not in texts[1] for name in only)
    ran = [next(line for line in text.splitlines() if line.startswith("portico_operations_compiled")) for text in texts]
    assert [float(line.split()[-1]) for line in ran] == [3, 0]


@pytest.mark.sample(2)
@pytest.mark.parametrize("gone", ["everything", "catalog"])
async def test_a_gateway_serves_after_the_other_is_closed(pair: Pair, gone: str, clock: SettableClock) -> None:
    left = pair.catalog if gone == "everything" else pair.everything
    await pair.close(gone)

    product = await create_product(left)
    assert (await node(left, "Product", product["sku"]))["id"] == product["id"]
    await left.data("{ products(first: 5) { nodes { sku categories { name } } } }")
    assert await delete(left, product) == "DeletedPayload"
    await run_jobs(left, clock)
    await assert_invariants(left)


async def test_a_subscription_goes_on_when_another_gateway_starts_and_is_closed(
    settings: Settings, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(ORDERS[0], settings, clock, monkeypatch) as pair:
        _, discussion = await discussed(pair.everything)
        refused = await pair.catalog.ask(POSTED, {"id": discussion})
        async with pair.everything.subscription(POSTED, {"id": discussion}) as events:
            await discussions.post(pair.everything, discussion, "One.")
            first = await anext(events)
            await pair.close("catalog")
            await discussions.post(pair.everything, discussion, "Two.")
            second = await anext(events)

    assert [event["commentPosted"]["text"] for event in (first, second)] == ["One.", "Two."]
    assert refused.codes
