"""`onError` of a request says what an error of a field does: null above it, null in its place, or the end."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from graphql import GraphQLNonNull, GraphQLObjectType

from portico.gateway.operations.plans.on_error import DEFAULT, ON_ERROR
from portico.gateway.settings import Settings
from portico.resolvers.comments.discussions import DOCUMENTS
from portico.schema.comments import discussions
from tests.comments.support.discussions import open_on_product, post
from tests.gateway.support.subscribers import acknowledged, data_of
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, category_input, create_product, running
from tests.support.pausing import failing
from tests.support.sockets import EVENTS, EventStream, listening, subscribe, wait_until_live

TITLES = "{ products { nodes { sku title } } viewer { subject } }"
VIEWER = {"subject": "tester"}
EXECUTORS = ("compiled", "reference")


@pytest.fixture(params=EXECUTORS)
async def shop(gateway: GatewayClient, request: pytest.FixtureRequest) -> GatewayClient:
    """Three products. The title of the second one is missing in the database."""
    gateway.state.executor.name = request.param
    for number in range(3):
        await create_product(gateway, sku=f"S{number}", title=f"Title {number}")
    await gateway.db["products"].update_one({"sku": "S1"}, {"$set": {"title": None}})
    return gateway


def rows(answer: dict[str, Any]) -> list[tuple[str, str | None]]:
    return sorted((one["sku"], one["title"]) for one in answer["data"]["products"]["nodes"])


async def test_by_default_an_error_makes_the_nearest_nullable_place_null(shop: GatewayClient) -> None:
    default, explicit = [(await shop.ask(TITLES, on_error=behavior)).body for behavior in (None, "PROPAGATE")]

    assert default["data"] == explicit["data"] == {"products": None, "viewer": VIEWER}
    assert [error["path"][0::3] for error in default["errors"]] == [["products", "title"]]


async def test_with_null_only_the_field_itself_is_null(shop: GatewayClient) -> None:
    answer: Any = (await shop.ask(TITLES, on_error="NULL")).body

    assert answer["data"]["viewer"] == VIEWER
    assert rows(answer) == [("S0", "Title 0"), ("S1", None), ("S2", "Title 2")]
    [error] = answer["errors"]
    assert (error["path"][:2], error["path"][3]) == (["products", "nodes"], "title")
    assert error["extensions"]["code"] == "INTERNAL"


async def test_with_halt_the_first_error_is_the_whole_answer(shop: GatewayClient) -> None:
    answer: Any = await shop.ask(TITLES, on_error="HALT")

    assert answer.status == 200
    assert answer.body["data"] is None
    [error] = answer.body["errors"]
    assert (error["path"][:2], error["path"][3]) == (["products", "nodes"], "title")


async def test_without_an_error_all_behaviors_give_the_same_answer(shop: GatewayClient) -> None:
    text = "{ products { nodes { sku } } viewer { subject } }"

    answers = [(await shop.ask(text, on_error=behavior)).body for behavior in (None, "NULL", "PROPAGATE", "HALT")]

    assert answers == [answers[0]] * 4
    assert "errors" not in answers[0]


async def test_a_mutation_that_halts_does_not_run_its_other_fields(shop: GatewayClient) -> None:
    text = """mutation ($first: CreateCategoryInput!, $second: CreateCategoryInput!) {
      first: createCategory(input: $first) { __typename }
      wrong: createProduct(input: { sku: "new", type: "T", title: "T", idempotencyKey: "",
        pricing: { list: { amount: 1 }, retail: { amount: 1 } } }) { __typename }
      second: createCategory(input: $second) { __typename }
    }"""
    given = {"first": category_input(slug="first"), "second": category_input(slug="second")}

    answer = (await shop.ask(text, given, on_error="HALT")).body

    assert (answer["data"], [error["path"] for error in answer["errors"]]) == (None, [["wrong"]])
    assert await shop.db["categories"].distinct("slug") == ["first"]


@pytest.mark.parametrize("given", ["null", "ABORT", "", 1, True, ["NULL"], {}])
async def test_another_value_is_an_error_that_names_the_values(gateway: GatewayClient, given: Any) -> None:
    answer = await gateway.http.post("/graphql", json={"query": TITLES, "onError": given})

    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert error["message"] == "`onError` must be PROPAGATE, NULL or HALT."
    assert error["extensions"]["code"] == "BAD_REQUEST"


async def test_null_in_place_of_a_value_counts_as_left_out(gateway: GatewayClient) -> None:
    answer = await gateway.http.post("/graphql", json={"query": "{ viewer { subject } }", "onError": None})

    assert answer.json() == {"data": {"viewer": None}}


# Transports and documents


async def test_a_url_an_event_stream_and_a_websocket_take_it(shop: GatewayClient) -> None:
    token = {"authorization": f"Bearer {shop.token()}"}
    expected = [("S0", "Title 0"), ("S1", None), ("S2", "Title 2")]

    by_url = await shop.http.get("/graphql", params={"query": TITLES, "onError": "NULL"}, headers=token)
    async with listening(shop) as port:
        body = {"query": TITLES, "onError": "NULL"}
        url, accept = f"http://127.0.0.1:{port}/graphql", {**EVENTS, **token}
        async with httpx.AsyncClient() as http, http.stream("POST", url, json=body, headers=accept) as response:
            streamed = await data_of(EventStream(response))
        async with acknowledged(port, shop.token()) as socket:
            await socket.send(subscribe("1", TITLES, onError="NULL"))
            message = await socket.receive()
            await socket.receive()
            await socket.send(subscribe("2", TITLES, onError="none"))
            closed = await socket.closed()

    assert rows(by_url.json()) == expected
    assert rows(streamed) == expected
    assert rows(message["payload"]) == expected
    assert closed == (4400, "Invalid message: `onError` must be PROPAGATE, NULL or HALT.")


async def test_a_trusted_document_takes_it(settings: Settings, tmp_path: Path) -> None:
    manifest = tmp_path / "documents.json"
    manifest.write_text(json.dumps({"titles": TITLES}))
    async with running(replace(settings, document_files=str(manifest))) as gateway:
        await create_product(gateway, sku="S0")
        await gateway.db["products"].update_one({"sku": "S0"}, {"$set": {"title": None}})

        answers = [
            (await gateway.http.post("/graphql", json={"documentId": "titles", "onError": behavior})).json()["data"]
            for behavior in ("PROPAGATE", "NULL", "HALT")
        ]

    assert answers[0] == {"products": None, "viewer": None}
    assert answers[1] == {"products": {"nodes": [{"sku": "S0", "title": None}]}, "viewer": None}
    assert answers[2] is None


async def test_subscribers_with_different_behaviors_do_not_share_answers(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    discussion = await open_on_product(gateway, DOCUMENTS)
    text = "subscription ($id: ID!) { commentPosted(discussionId: $id) { text replies(first: 1) { nodes { text } } } }"
    monkeypatch.setattr(discussions, "_comment_page", failing(RuntimeError("the read failed")))
    found = {}
    async with listening(gateway) as port, contextlib.AsyncExitStack() as stack:
        sockets = {behavior: await stack.enter_async_context(acknowledged(port)) for behavior in ON_ERROR}
        for behavior, socket in sockets.items():
            await socket.send(subscribe("1", text, variables={"id": discussion}, onError=behavior))
        await wait_until_live(gateway, 3)
        await post(gateway, discussion, "New.")
        for behavior, socket in sockets.items():
            found[behavior] = (await socket.receive())["payload"]["data"]

    assert found == {"PROPAGATE": None, "NULL": {"commentPosted": {"text": "New.", "replies": None}}, "HALT": None}


# Discovery


SERVICE = "{ __service { capabilities { identifier value } } }"
CAPABILITIES = [
    {"identifier": "graphql.onError", "value": None},
    {"identifier": "graphql.defaultErrorBehavior", "value": DEFAULT},
]


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_the_service_tells_its_capabilities(gateway: GatewayClient, executor: Any) -> None:
    gateway.state.executor.name = executor

    assert await gateway.data(SERVICE) == {"__service": {"capabilities": CAPABILITIES}}
    both = await gateway.data("{ s: __service { __typename } viewer { subject } }")
    assert both == {"s": {"__typename": "__Service"}, "viewer": VIEWER}


async def test_capabilities_are_told_without_introspection(settings: Settings) -> None:
    async with running(replace(settings, introspection=False)) as gateway:
        assert (await gateway.data(SERVICE))["__service"] == {"capabilities": CAPABILITIES}
        assert "GRAPHQL_VALIDATION_FAILED" in (await gateway.ask("{ __schema { queryType { name } } }")).codes


async def test_only_queries_have_the_service_and_introspection_does_not_list_it(gateway: GatewayClient) -> None:
    names = await gateway.data("{ __schema { types { name } queryType { fields { name } } } }")

    listed = [one["name"] for one in [*names["__schema"]["types"], *names["__schema"]["queryType"]["fields"]]]
    assert not {"__service", "__Service", "__Capability"} & set(listed)
    for text in ("mutation { __service { capabilities { value } } }", "{ viewer { __service { __typename } } }"):
        assert (await gateway.ask(text)).codes == ["GRAPHQL_VALIDATION_FAILED"]


# What a field that fails or is refused leaves

# No read can fail.
_ALWAYS = {"Viewer.roles", "Viewer.subject"}


@pytest.mark.parametrize("name", ["Query", "Viewer"])
def test_root_fields_and_those_of_the_viewer_are_nullable(name: str) -> None:
    found = SCHEMA._schema.type_map[name]
    assert isinstance(found, GraphQLObjectType)

    required = {f"{name}.{one}" for one, field in found.fields.items() if isinstance(field.type, GraphQLNonNull)}

    assert required <= _ALWAYS


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        ('refused: chooseAds(siteId: "s", zoneId: "z", limit: 1000) { ads { id } }', "BAD_USER_INPUT"),
        ("refused: products(first: 1000) { nodes { id } }", "BAD_USER_INPUT"),
        ('refused: products(after: "x") { nodes { id } }', "BAD_USER_INPUT"),
        ("refused: characters { nodes { id } }", "FORBIDDEN"),
        ('refused: logEvents(filter: { from: "2020-01-01T00:00:00Z" }) { nodes { id } }', "FORBIDDEN"),
    ],
)
async def test_a_refused_root_field_leaves_the_others(gateway: GatewayClient, refused: str, code: str) -> None:
    made = await create_product(gateway)

    answer = await gateway.ask(f"{{ products {{ nodes {{ sku }} }} {refused} }}", token=gateway.token("a", []))

    assert answer.body["data"] == {"products": {"nodes": [{"sku": made["sku"]}]}, "refused": None}
    assert answer.codes == [code]


async def test_a_refused_list_leaves_the_viewer(gateway: GatewayClient) -> None:
    query = '{ viewer { subject newsFeed(month: "x") { nodes { id } } orders(first: 0) { nodes { id } } } }'

    answer = await gateway.ask(query, token=gateway.token("a", []))

    assert answer.body["data"] == {"viewer": {"subject": "a", "newsFeed": None, "orders": None}}
    assert [error["path"] for error in answer.body["errors"]] == [["viewer", "newsFeed"], ["viewer", "orders"]]
