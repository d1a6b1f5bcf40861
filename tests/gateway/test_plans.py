"""What plans show to people and programs, and what stops an operation early."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from portico.gateway.cli.explain import plan_of_text
from portico.gateway.http.endpoint import GraphQLEndpoint
from portico.gateway.operations.documents import InvalidOperation
from portico.gateway.settings import Settings
from portico.resolvers.catalog import products
from portico.resolvers.documents import upgrade_read
from tests.support.forks import PORTICO
from tests.support.harness import MUTATIONS, GatewayClient, category_input, create_category, create_product, running
from tests.support.interruptions import database_of, interrupted
from tests.support.processes import environment, portico

PAGE = """
query Page($details: Boolean = true) {
  products(first: 2) {
    nodes { sku title @include(if: $details) categories { slug breadcrumbs { name } } ... on Film { directors } }
    pageInfo { hasNextPage }
  }
}
"""


@pytest.fixture
async def explaining(settings: Settings) -> AsyncIterator[GatewayClient]:
    """A gateway that shows plans, with two products in a category."""
    async with running(replace(settings, show_plans=True)) as gateway:
        category = await create_category(gateway, slug="jazz")
        for _ in range(2):
            await create_product(gateway, categoryIds=[category["id"]])
        yield gateway


def explain(tmp_path: Path, text: str, *options: str) -> Any:
    file = tmp_path / "operation.graphql"
    file.write_text(text)
    return portico("explain", str(file), *options, env=environment())


# The plan as text


def test_a_plan_shows_what_is_read_and_in_which_order(tmp_path: Path) -> None:
    done = explain(tmp_path, PAGE)

    lines = [line.strip("│├└─ ") for line in done.stdout.splitlines()]
    assert lines[0] == "query Page  all fields at once"
    assert "products  ProductConnection  resolver" in lines
    assert "reads  category_ids, details.directors, sku, title, type" in lines
    assert "categories  [Category!]!  Category by category_ids, one read a level" in lines
    assert "reads  ancestors.name, slug" in lines
    assert "on Film" in lines


def test_a_plan_depends_on_the_variables_of_directives(tmp_path: Path) -> None:
    done = explain(tmp_path, PAGE, "--variables", '{"details": false}')

    assert "title" not in done.stdout


def test_an_operation_that_is_not_compiled_is_reported(tmp_path: Path) -> None:
    plan, cost = explain(tmp_path, "{ __schema { types { name } } }").stdout.splitlines()

    assert plan == "graphql-core runs this operation: __schema is not compiled."
    assert cost.endswith(" of 50,000")


def test_an_explanation_shows_what_each_field_adds_to_the_cost(tmp_path: Path) -> None:
    done = explain(tmp_path, "{ products(first: 10) { nodes { title categories { name } } } viewer { subject } }")

    lines = [line.strip("│├└─ ") for line in done.stdout.splitlines()]
    assert lines[-5:] == ["costs 153 of 50,000", "products  151  10 rows", "nodes  130", "categories  110", "viewer  2"]


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("{ nothing }", (), "Cannot query field 'nothing' on type 'Query'."),
        ("{ products", (), "Syntax Error"),
        ("query A { viewer { subject } } query B { viewer { subject } }", (), "Name the one to run"),
        (PAGE, ("--variables", "[]"), "--variables must be a JSON object."),
        (PAGE, ("--variables", "{"), "--variables is not JSON"),
        (PAGE, ("--variables", '{"details": "x"}'), "Variable '$details' has invalid value"),
    ],
)
def test_an_operation_without_a_plan_is_reported_in_one_line(
    tmp_path: Path, text: str, options: tuple[str, ...], problem: str
) -> None:
    done = explain(tmp_path, text, *options)

    assert done.returncode == 1
    assert problem in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_standard_input_must_be_utf8() -> None:
    content = b"{ viewer }\xff\xfe"
    done = subprocess.run([PORTICO, "explain", "-"], input=content, capture_output=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"portico: - is not UTF-8: invalid start byte at byte 10.\n"


CONDITION = "query ($is: Boolean!, $first: Int!) { products(first: $first) { totalCount @include(if: $is) } }"


@pytest.mark.parametrize(
    ("given", "named"),
    [({"is": "x", "first": 1.5}, ["$is", "$first"]), ({"is": None}, ["$is"]), ({}, ["$is"]), ({"first": 1}, ["$is"])],
)
def test_invalid_and_missing_variables_of_directives_are_named(given: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(InvalidOperation) as caught:
        plan_of_text(CONDITION, None, given, Settings())

    assert [re.findall(r"'(\$\w+)'", error.message) for error in caught.value.errors] == [[name] for name in named]


@pytest.mark.parametrize(("value", "is_there"), [(True, True), (False, False)])
def test_a_variable_that_no_directive_uses_may_be_left_out(value: bool, is_there: bool) -> None:
    shown = plan_of_text(CONDITION, None, {"is": value, "unused": 1}, Settings())

    assert ("totalCount" in " ".join(str(field.label) for field in shown.children[0].children)) is is_there


# The plan in an answer


async def test_an_answer_has_its_plan_and_its_commands_on_request(explaining: GatewayClient) -> None:
    body = {"query": PAGE, "extensions": {"plan": True}}

    plan = (await explaining.http.post("/graphql", json=body)).json()["extensions"]["plan"]

    assert plan["operation"] == "query Page"
    assert [(command["name"], command["examined"]["documents"]) for command in plan["commands"]] == [
        ("find", 2),
        ("find", 1),
    ]
    assert all(command["milliseconds"] > 0 for command in plan["commands"])
    assert plan["commands"][0]["command"]["filter"] == {"terms": "*"}


async def test_a_header_can_request_the_plan(explaining: GatewayClient) -> None:
    asked = await explaining.http.post("/graphql", json={"query": PAGE}, headers={"x-portico-plan": "true"})

    assert asked.json()["extensions"]["plan"]["executor"] == explaining.settings.executor


async def test_an_operation_that_did_not_start_has_no_plan(explaining: GatewayClient) -> None:
    body = {"query": PAGE, "variables": {"details": "x"}, "extensions": {"plan": True}}

    assert (await explaining.http.post("/graphql", json=body)).json().keys() == {"errors"}


async def test_plans_are_hidden_unless_the_settings_show_them(gateway: GatewayClient) -> None:
    body = {"query": PAGE, "extensions": {"plan": True}}

    assert "extensions" not in (await gateway.http.post("/graphql", json=body)).json()


# Counts


async def test_operations_that_are_not_compiled_are_counted(gateway: GatewayClient) -> None:
    gateway.state.executor.name = "compiled"
    await gateway.ask("{ viewer { subject } }")
    await gateway.ask("{ __schema { queryType { name } } }")

    lines = (await gateway.http.get("/metrics")).text.splitlines()

    assert "portico_operations_compiled_total 1.0" in lines
    assert 'portico_operations_not_compiled_total{what="__schema"} 1.0' in lines


# Timeouts and disconnects


def _sleeping(read: Any, begun: asyncio.Event, ended: asyncio.Event, seconds: float) -> Callable[..., Any]:
    async def sleeping(*args: Any, **kwargs: Any) -> Any:
        begun.set()
        try:
            await asyncio.sleep(seconds)
            return await read(*args, **kwargs)
        finally:
            ended.set()

    return sleeping


async def test_an_operation_times_out(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(products, "upgrade_read", _sleeping(upgrade_read, begun, ended, 30))
    async with running(replace(settings, operation_seconds=1)) as gateway:
        answer = await gateway.ask('{ product(sku: "a") { title } }')
        # The cancelled read ends in the next iteration of the event loop.
        await asyncio.wait_for(ended.wait(), 5)

    assert answer.codes == ["TIMEOUT"]


class Departing:
    """A client that sends a request, waits until the gateway works on it, and disconnects."""

    def __init__(self, begun: asyncio.Event, body: dict[str, Any]) -> None:
        self._begun = begun
        self._messages = [{"type": "http.request", "body": json.dumps(body).encode()}]
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        if self._messages:
            return self._messages.pop()
        await self._begun.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)


def _scope(token: str) -> dict[str, Any]:
    headers = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {token}".encode())]
    path = {"path": "/graphql", "raw_path": b"/graphql", "query_string": b""}
    return {"type": "http", "method": "POST", **path, "headers": headers}


async def test_a_query_is_cancelled_when_its_client_disconnects(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(products, "upgrade_read", _sleeping(upgrade_read, begun, ended, 30))
    client = Departing(begun, {"query": '{ product(sku: "a") { title } }'})

    async with asyncio.timeout(10):
        await GraphQLEndpoint(gateway.state)(_scope(gateway.token()), client.receive, client.send)
        await ended.wait()

    assert client.sent == []


async def test_a_mutation_goes_on_when_its_client_disconnects(gateway: GatewayClient) -> None:
    begun = asyncio.Event()

    async def sleep() -> None:
        begun.set()
        await asyncio.sleep(0.5)

    variables = {"input": category_input(slug="kept")}
    client = Departing(begun, {"query": MUTATIONS["createCategory"], "variables": variables})
    with database_of(gateway, interrupted(gateway.db, "categories", "insert_one", sleep)):
        await GraphQLEndpoint(gateway.state)(_scope(gateway.token()), client.receive, client.send)

    assert await gateway.db["categories"].count_documents({"slug": "kept"}) == 1
