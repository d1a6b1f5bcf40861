"""Internal faults: what the client gets, what the log has, and what still works."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway import outages
from portico.gateway.logs import configure
from portico.gateway.mongo.faults import FaultyDatabase
from portico.gateway.settings import Settings
from tests.support.harness import Answer, GatewayClient, category_input, create_category, create_product, running
from tests.support.sockets import until
from tests.support.wire import through_wire

pytestmark = pytest.mark.both_drivers

INTERNAL = "Internal error in the gateway. To find it in the log, search for the request id."
TITLES = (
    '{ bad: product(sku: "bad") { title pricing { retail { amount } } issueDate } '
    'good: product(sku: "good") { title } }'
)
CREATE = "mutation ($input: CreateCategoryInput!) { createCategory(input: $input) { __typename } }"


class Log:
    """What the gateway logs: one JSON object on each line."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured
        self.text = ""

    def entries(self, event: str) -> list[dict[str, Any]]:
        self.text += self._captured.readouterr().err
        found = [json.loads(line) for line in self.text.splitlines() if line.startswith("{")]
        return [entry for entry in found if entry["event"] == event]


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str], settings: Settings) -> Iterator[Log]:
    yield Log(capsys)
    with capsys.disabled():
        configure(settings)


@contextlib.asynccontextmanager
async def logging(settings: Settings) -> AsyncIterator[GatewayClient]:
    """A gateway with two products. The test reads its log."""
    async with running(replace(settings, log_format="json")) as gateway:
        for sku in ("good", "bad"):
            await create_product(gateway, sku=sku)
        yield gateway


def only_error(answer: Answer) -> dict[str, Any]:
    (error,) = answer.body["errors"]
    assert isinstance(error, dict)
    return error


@pytest.mark.parametrize(
    "damage",
    [
        {"pricing": "secret of the shop"},
        {"pricing.retail": "secret of the shop"},
        {"pricing.retail": 2**60},
        {"pricing.retail": 1.5},
        {"title": {"secret of": "the shop"}},
        {"title": None},
        {"issue_date": "secret of the shop"},
        {"issue_date": {"secret of": "the shop"}},
    ],
)
async def test_a_damaged_document_is_a_fault_that_shows_only_the_request_id(
    settings: Settings, log: Log, damage: dict[str, Any]
) -> None:
    async with logging(settings) as gateway:
        await gateway.db["products"].update_one({"sku": "bad"}, {"$set": damage})

        answer = await gateway.ask(TITLES)

        error = only_error(answer)
        request_id = answer.headers["x-request-id"]
        assert answer.status == 200
        assert answer.body["data"]["good"]["title"]
        assert (error["message"], error["extensions"]) == (INTERNAL, {"code": "INTERNAL", "requestId": request_id})
        assert error["path"][0] == "bad"
        (entry,) = [*log.entries("stored value does not fit"), *log.entries("fault")]
        assert (entry["request_id"], entry["path"]) == (request_id, error["path"])
        assert "Traceback" in entry["exception"] if entry["event"] == "fault" else entry["error"]
        assert "secret" not in json.dumps(answer.body)


async def test_after_a_crash_the_client_gets_the_request_id_and_the_log_gets_the_cause(
    settings: Settings, log: Log
) -> None:
    async with logging(settings) as gateway:
        _, gateway.state.database = FaultyDatabase.around(gateway.db, 0)

        answer = await gateway.ask('{\n  viewer { subject }\n  wanted: product(sku: "good") { title }\n}')

        request_id = answer.headers["x-request-id"]
        assert answer.body["data"] == {"viewer": {"subject": "tester"}, "wanted": None}
        assert only_error(answer) == {
            "message": INTERNAL,
            "locations": [{"line": 3, "column": 3}],
            "path": ["wanted"],
            "extensions": {"code": "INTERNAL", "requestId": request_id},
        }
        (entry,) = log.entries("fault")
        assert entry["level"] == "error"
        assert entry["request_id"] == request_id
        assert "portico.gateway.mongo.faults.Crash" in entry["exception"]


@pytest.mark.usefixtures("log")
async def test_a_failed_mutation_does_not_undo_the_others_in_its_request(settings: Settings) -> None:
    async with logging(settings) as gateway:
        database = gateway.db
        # The first one stores the words of its name, and the category.
        faulty, gateway.state.database = FaultyDatabase.around(database, 2)
        calls = " ".join(f"{name}: createCategory(input: ${name}) {{ __typename }}" for name in "ab")
        query = f"mutation ($a: CreateCategoryInput!, $b: CreateCategoryInput!) {{ {calls} }}"

        answer = await gateway.ask(query, {"a": category_input(slug="a"), "b": category_input(slug="b")})

        assert faulty.has_crashed
        assert answer.body["data"] == {"a": {"__typename": "CategoryPayload"}, "b": None}
        assert (answer.codes, only_error(answer)["path"]) == (["INTERNAL"], ["b"])
        assert [category["slug"] async for category in database["categories"].find()] == ["a"]


@pytest.mark.usefixtures("log")
async def test_an_error_in_a_list_names_its_index(settings: Settings) -> None:
    async with logging(settings) as gateway:
        product, damaged = await create_product(gateway, sku="another"), await create_product(gateway, sku="damaged")
        await gateway.db["products"].update_one({"sku": "damaged"}, {"$unset": {"title": 1}})

        answer = await gateway.ask(
            "query ($ids: [ID!]!) { all: nodes(ids: $ids) { ... on Product { title } } }",
            {"ids": [product["id"], damaged["id"]]},
        )

        assert answer.body["data"] == {"all": [{"title": product["title"]}, None]}
        assert (only_error(answer)["path"], answer.codes) == (["all", 1, "title"], ["INTERNAL"])


async def test_client_errors_are_not_logged_as_faults(settings: Settings, log: Log) -> None:
    async with logging(settings) as gateway:
        page, node = "{ products(first: 1000) { nodes { id } } }", '{ node(id: "x") { id } }'
        for query in (page, node, "{ nonsense }", "nonsense"):
            assert (await gateway.ask(query)).status == 200

        assert log.entries("fault") == []


@pytest.mark.usefixtures("log")
async def test_null_for_a_non_null_argument_is_a_client_error(settings: Settings) -> None:
    async with logging(settings) as gateway:
        products = "products(includeDescendants: $below) { nodes { sku } }"
        query = f'query ($below: Boolean = true) {{ category(slug: "jazz") {{ {products} }} }}'
        await create_category(gateway, slug="jazz")

        answer = await gateway.ask(query, {"below": None})

        assert answer.codes == ["BAD_USER_INPUT"]


async def test_a_fault_outside_of_any_field_is_masked(settings: Settings, log: Log) -> None:
    async with logging(settings) as gateway:
        clock, gateway.state.clock = gateway.state.clock, None  # type: ignore[assignment]

        answer = await gateway.ask("{ viewer { subject } }")

        gateway.state.clock = clock
        request_id = answer.headers["x-request-id"]
        assert answer.status == 500
        assert answer.body == {
            "errors": [{"message": INTERNAL, "extensions": {"code": "INTERNAL", "requestId": request_id}}]
        }
        (entry,) = log.entries("fault")
        assert entry["request_id"] == request_id
        assert "AttributeError" in entry["exception"]


async def test_the_log_has_the_request_id_and_the_trace_id_of_the_caller(settings: Settings, log: Log) -> None:
    query = {"query": '{ category(slug: "jazz") { name } }'}
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    async with logging(settings) as gateway:
        _, gateway.state.database = FaultyDatabase.around(gateway.state.database, 0)
        headers = {"x-request-id": "mine", "authorization": f"Bearer {gateway.token()}"}

        # A server has a task for each request.
        traced = {**headers, "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
        answer = await asyncio.create_task(gateway.http.post("/graphql", json=query, headers=traced))
        other = {**headers, "x-request-id": "other"}
        await asyncio.create_task(gateway.http.post("/graphql", json=query, headers=other))

    first, second = log.entries("fault")
    assert answer.json()["errors"][0]["extensions"]["requestId"] == "mine"
    assert (first["request_id"], first["trace_id"]) == ("mine", trace)
    assert second["request_id"] == "other"
    assert "trace_id" not in second


async def test_without_mongodb_only_the_fields_that_need_it_are_unavailable_until_it_returns(
    settings: Settings, log: Log
) -> None:
    with through_wire(replace(settings, database_seconds=3)) as (wire, over_wire):
        async with running(replace(over_wire, log_format="json")) as gateway:
            wire.cut()

            answer = await gateway.ask('{ viewer { subject } category(slug: "jazz") { name } }')

            request_id = answer.headers["x-request-id"]
            assert answer.body["data"] == {"viewer": {"subject": "tester"}, "category": None}
            assert only_error(answer) == {
                "message": "The gateway cannot reach the database, or an index is being built. Try again later.",
                "locations": [{"line": 1, "column": 22}],
                "path": ["category"],
                "extensions": {"code": "UNAVAILABLE", "requestId": request_id},
            }
            (entry,) = log.entries("database unavailable")
            assert (entry["request_id"], entry["path"], entry["occurrences"]) == (request_id, ["category"], 1)
            assert "Traceback" not in log.text

            wire.restore()
            assert (await gateway.ask(CREATE, {"input": category_input()})).data


async def test_an_outage_is_one_line_in_the_log_for_each_cause_and_interval(
    settings: Settings, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "INTERVAL_SECONDS", 1.0)
    with through_wire(replace(settings, database_seconds=1, max_running_queries=40)) as (wire, over_wire):
        async with running(replace(over_wire, log_format="json")) as gateway:
            wire.cut()
            begun = time.monotonic()
            asked = [gateway.ask(f'{{ category(slug: "c{number}") {{ name }} }}') for number in range(40)]
            answers = await asyncio.gather(*asked)

            def reported() -> int:
                return sum(entry["occurrences"] for entry in log.entries("database unavailable"))

            await until(lambda: reported() == 40)
            intervals = (time.monotonic() - begun) / outages.INTERVAL_SECONDS
            wire.restore()

    assert {code for answer in answers for code in answer.codes} == {"UNAVAILABLE"}
    causes = {entry["error"] for entry in log.entries("database unavailable")}
    assert len(log.entries("database unavailable")) <= (intervals + 2) * len(causes)
    assert log.entries("fault") == []
    assert "Traceback" not in log.text


async def test_a_mongodb_that_does_not_answer_in_time_is_a_timeout(settings: Settings, log: Log) -> None:
    assert log.text == ""
    with through_wire(replace(settings, database_seconds=1)) as (wire, over_wire):
        async with running(over_wire) as gateway:
            wire.block()

            answer = await gateway.ask('{ category(slug: "jazz") { name } }')

            assert answer.body["data"] == {"category": None}
            assert (answer.codes, only_error(answer)["message"]) == (["TIMEOUT"], "The operation timed out.")
            wire.cut()
