"""Traces and metrics, as a collector of OpenTelemetry receives them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from portico.gateway.app import create_app
from portico.gateway.settings import Settings, SettingsError
from portico.gateway.telemetry import open_telemetry
from portico.gateway.telemetry.open_telemetry import FLUSH_SECONDS, MAX_CLIENT_NAMES, MAX_OPERATION_NAMES
from portico.schema.kinds import Kind
from tests.comments.support.discussions import open_on_product, post
from tests.support.collector import Collector, Span
from tests.support.harness import GatewayClient, category_input, create_category, create_product, running
from tests.support.processes import environment, own_database, served
from tests.support.sockets import POSTED, listening, opened, streamed, subscribe, texts, wait_until_live

LOCAL = ("127.0.0.1", 0)
PRODUCTS = "query Shelf { products(first: 5) { nodes { title categories { name } } } }"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that gateways of this test send to. They send everything when they stop, at the latest."""
    # What is tested is what arrives. How long it takes to arrive depends on the machine.
    monkeypatch.setattr(open_telemetry, "FLUSH_SECONDS", None)
    with Collector.opened() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


async def ask(gateway: GatewayClient, query: str, **headers: str) -> None:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {"authorization": f"Bearer {gateway.token()}", **sent}
    await gateway.http.post("/graphql", json={"query": query}, headers=sent)


def below(collector: Collector, parent: Span) -> list[Span]:
    """All spans below this one."""
    found = [span for span in collector.spans if span.parent == parent.id]
    return [span for child in found for span in (child, *below(collector, child))]


async def test_an_operation_is_a_span_with_its_name_and_the_hash_of_its_document(
    settings: Settings, collector: Collector
) -> None:
    async with running(settings) as gateway:
        await ask(gateway, PRODUCTS, apollographql_client_name="till")

    [span] = collector.named("query")
    assert span.kind == "server"
    assert span.parent == ""
    assert not span.failed
    assert span.attributes["graphql.operation.type"] == "query"
    assert span.attributes["graphql.operation.name"] == "Shelf"
    assert span.attributes["graphql.client.name"] == "till"
    assert span.attributes["graphql.document.hash"] == f"sha256:{hashlib.sha256(PRODUCTS.encode()).hexdigest()}"
    assert collector.resource["service.name"] == "portico"


async def test_the_commands_of_an_operation_are_spans_below_it(settings: Settings, collector: Collector) -> None:
    async with running(settings) as gateway:
        category = await create_category(gateway)
        await create_product(gateway, categoryIds=[category["id"]])
        await ask(gateway, PRODUCTS)

    [operation] = collector.named("query")
    found = below(collector, operation)
    commands = {span.name: span.attributes for span in found if span.kind == "client"}
    assert commands.keys() == {"find products", "find categories"}
    assert commands["find products"]["db.system.name"] == "mongodb"
    assert commands["find products"]["db.namespace"] == settings.database
    assert commands["find products"]["db.collection.name"] == "products"
    assert commands["find products"]["db.operation.name"] == "find"
    assert commands["find products"]["db.response.returned_rows"] == 1
    assert isinstance(commands["find products"]["server.port"], int)
    assert operation.attributes["portico.commands"] == 2
    assert operation.attributes["portico.documents"] == 2


async def test_a_resolver_that_waits_is_a_span_above_its_commands(settings: Settings, collector: Collector) -> None:
    async with running(settings) as gateway:
        await create_product(gateway)
        await ask(gateway, PRODUCTS)

    [operation] = collector.named("query")
    [resolver] = collector.named("Query.products")
    [command] = collector.named("find products")
    assert resolver.parent == operation.id
    assert command.parent == resolver.id
    assert resolver.attributes["graphql.processing.type"] == "resolve"
    assert resolver.attributes["graphql.field.schema_coordinate"] == "Query.products"


async def test_a_mutation_is_a_span_with_its_writes(settings: Settings, collector: Collector) -> None:
    async with running(settings) as gateway:
        await gateway.result("createCategory", category_input())

    [operation] = collector.named("mutation")
    names = [span.name for span in below(collector, operation)]
    assert "Mutation.createCategory" in names
    assert "insert categories" in names


async def test_the_trace_of_the_caller_continues(settings: Settings, collector: Collector) -> None:
    async with running(settings) as gateway:
        await ask(gateway, PRODUCTS, traceparent=PARENT)
        await ask(gateway, PRODUCTS, traceparent="nonsense")

    first, second = collector.named("query")
    assert (first.trace, first.parent) == (TRACE, "00f067aa0ba902b7")
    assert second.trace != TRACE
    assert second.parent == ""


async def test_a_caller_that_does_not_sample_gets_metrics_only(settings: Settings, collector: Collector) -> None:
    async with running(settings) as gateway:
        await ask(gateway, PRODUCTS, traceparent=f"{PARENT[:-1]}0")

    assert collector.named("query") == []
    assert collector.named("find products") == []
    assert collector.total("graphql.server.request.duration", operation="Shelf") == 1
    assert collector.total("portico.commands", operation="Shelf") == 1


async def test_an_error_has_its_code_in_traces_and_metrics(settings: Settings, collector: Collector) -> None:
    async with running(settings) as gateway:
        await ask(gateway, "query Wrong { products(first: 0) { nodes { title } } }")
        await ask(gateway, "query { unknown }")
        await ask(gateway, PRODUCTS)

    [failed] = [span for span in collector.named("query") if span.failed]
    assert failed.attributes["error.type"] == "BAD_USER_INPUT"
    assert failed.attributes["portico.error_codes"] == ["BAD_USER_INPUT"]
    [invalid] = collector.named("GraphQL Operation")
    assert invalid.attributes["error.type"] == "GRAPHQL_VALIDATION_FAILED"
    assert collector.total("portico.errors", operation="Wrong", error="BAD_USER_INPUT") == 1
    assert collector.total("portico.errors", error="GRAPHQL_VALIDATION_FAILED") == 1
    assert collector.total("portico.errors") == 2


async def test_metrics_count_by_operation_and_client(settings: Settings, collector: Collector) -> None:
    async with running(settings) as gateway:
        await create_product(gateway)
        await ask(gateway, PRODUCTS, apollographql_client_name="till")
        await ask(gateway, PRODUCTS, graphql_client_name="app")
        await ask(gateway, PRODUCTS, graphql_client_name="app")

    assert collector.total("graphql.server.request.duration", operation="Shelf", client="till", kind="query") == 1
    assert collector.total("graphql.server.request.duration", operation="Shelf", client="app") == 2
    assert collector.total("portico.commands", operation="Shelf", client="app") == 2
    assert collector.total("portico.documents", operation="Shelf", client="app") == 2
    assert collector.total("db.client.operation.duration", collection="products", command="find") == 3


async def test_the_number_of_names_in_metrics_is_bounded(settings: Settings, collector: Collector) -> None:
    async with running(settings) as gateway:
        for number in range(MAX_OPERATION_NAMES + 5):
            await ask(gateway, f"query Made{number} {{ __typename }}", graphql_client_name=f"client {number}")
        await ask(gateway, f"query {'A' * 1000} {{ __typename }}")

    duration = "graphql.server.request.duration"
    series = [dict(found) for found in collector.metrics[duration]]
    assert len({found["graphql.operation.name"] for found in series}) == MAX_OPERATION_NAMES + 1
    assert len({found["graphql.client.name"] for found in series if "graphql.client.name" in found}) == (
        MAX_CLIENT_NAMES + 1
    )
    assert collector.total(duration, operation="other") == 6
    assert collector.total(duration, operation="Made0", client="client 0") == 1


async def test_an_operation_has_a_bounded_number_of_spans(settings: Settings, collector: Collector) -> None:
    fields = " ".join(f'p{number}: product(sku: "SKU-{number}") {{ title }}' for number in range(150))
    async with running(replace(settings, max_cost=100_000)) as gateway:
        await ask(gateway, f"query Many {{ {fields} }}")

    [operation] = collector.named("query")
    assert len(below(collector, operation)) <= 200
    assert operation.attributes["portico.commands"] >= 1


@pytest.mark.parametrize(("name", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "")])
async def test_the_variables_of_the_sdk_turn_telemetry_off(
    settings: Settings, collector: Collector, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    async with running(settings) as gateway:
        await ask(gateway, PRODUCTS)
        listeners = gateway.state.telemetry.listeners

    assert list(listeners) == []
    assert collector.paths == {}


async def test_traces_and_metrics_can_be_turned_off_alone(
    settings: Settings, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for off, other in (("traces", "metrics"), ("metrics", "traces")):
        monkeypatch.setenv(f"OTEL_{off.upper()}_EXPORTER", "none")
        monkeypatch.setenv(f"OTEL_{other.upper()}_EXPORTER", "otlp")
        collector.paths.clear()
        async with running(settings) as gateway:
            await ask(gateway, PRODUCTS)
        assert collector.paths.keys() == {f"/v1/{other}"}


# Subscriptions


async def test_a_subscription_and_each_of_its_events_are_spans(settings: Settings, collector: Collector) -> None:
    async with running(settings) as gateway, listening(gateway) as port, opened(port) as client:
        discussion = await open_on_product(gateway, "DOCUMENTS")
        await client.send({"type": "connection_init", "payload": {"apollographql-client-name": "app"}})
        await client.receive()
        await client.subscribe("1", POSTED, {"id": discussion})
        await wait_until_live(gateway)
        await post(gateway, discussion, "first")
        assert await texts(client, 1) == ["first"]

    [subscription] = collector.named("subscription")
    [event] = collector.named("GraphQL Subscription Event")
    assert subscription.attributes["graphql.client.name"] == "app"
    assert event.links == (subscription.id,)
    assert event.trace != subscription.trace
    assert event.attributes["graphql.operation.type"] == "subscription"
    assert event.attributes["graphql.client.name"] == "app"
    assert event.attributes["graphql.document.hash"] == subscription.attributes["graphql.document.hash"]
    assert {span.name for span in below(collector, event) if span.kind == "client"}
    assert collector.total("graphql.server.subscription.event.duration", client="app") == 1


async def test_subscribers_who_share_an_answer_share_its_span(settings: Settings, collector: Collector) -> None:
    async with running(settings) as gateway, listening(gateway) as port:
        discussion = await open_on_product(gateway, "DOCUMENTS")
        variables = {"id": discussion}
        async with streamed(port, POSTED, variables) as first, streamed(port, POSTED, variables) as second:
            await wait_until_live(gateway, 2)
            await post(gateway, discussion, "shared")
            assert await texts(first, 1) == await texts(second, 1) == ["shared"]

    assert len(collector.named("subscription")) == 2
    assert len(collector.named("GraphQL Subscription Event")) == 1


async def test_each_operation_of_a_socket_can_belong_to_another_trace(settings: Settings, collector: Collector) -> None:
    headers = {"graphql-client-name": "server"}
    async with running(settings) as gateway, listening(gateway) as port, opened(port, headers=headers) as client:
        await client.init()
        for key, trace in (("1", TRACE), ("2", TRACE[::-1])):
            extensions = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
            await client.send(subscribe(key, PRODUCTS, extensions=extensions))
            assert (await client.receive())["type"] == "next"
            assert (await client.receive())["type"] == "complete"

    spans = collector.named("query")
    assert [span.trace for span in spans] == [TRACE, TRACE[::-1]]
    assert {span.attributes["graphql.client.name"] for span in spans} == {"server"}


async def test_a_subscription_that_cannot_start_is_a_failed_span(settings: Settings, collector: Collector) -> None:
    missing = {"id": Kind.encode_id("Discussion", "0" * 24)}
    async with running(settings) as gateway, listening(gateway) as port, streamed(port, POSTED, missing) as stream:
        assert await stream.receive() is not None

    [subscription] = collector.named("subscription")
    assert subscription.failed
    assert subscription.attributes["error.type"] == "NOT_FOUND"


# Configuration and its failures


async def test_an_exporter_that_is_not_installed_is_an_error_at_start(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")

    with pytest.raises(SettingsError, match=r"^OTEL_TRACES_EXPORTER selects 'zipkin', which is not installed\.$"):
        create_app(settings)


async def test_an_unknown_protocol_is_an_error_at_start(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")

    with pytest.raises(SettingsError, match="must be http/protobuf or grpc; got 'http/json'"):
        create_app(settings)


async def test_without_the_extra_the_gateway_serves_and_says_that_telemetry_is_off(
    settings: Settings, collector: Collector, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("portico.gateway.telemetry.exporters.entry_points", lambda **_selected: ())

    async with running(replace(settings, log_level="warning", log_format="json")) as gateway:
        await gateway.data(PRODUCTS)

    assert "install the extra portico[otel]" in capfd.readouterr().err
    assert collector.paths == {}


@pytest.mark.sample(2)
@pytest.mark.parametrize("signal_name", ["traces", "metrics"])
def test_a_gateway_stops_in_time_while_the_collector_is_unreachable(
    mongodb_uri: str, tmp_path: Path, signal_name: str
) -> None:
    """One collector accepts connections and never answers. Nobody listens on the other port."""
    with own_database(mongodb_uri, tmp_path) as settings, contextlib.closing(socket.create_server(LOCAL)) as silent:
        closed, silent_url = "http://127.0.0.1:1", f"http://127.0.0.1:{silent.getsockname()[1]}"
        urls = {"traces": closed, "metrics": closed, signal_name: silent_url}
        env = environment(
            settings,
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=urls["traces"],
            OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=urls["metrics"],
            OTEL_BSP_SCHEDULE_DELAY="10",
            OTEL_METRIC_EXPORT_INTERVAL="10",
            PORTICO_DRAIN_SECONDS="0.1",
            PORTICO_LOG_FORMAT="json",
        )
        with served(tmp_path, env) as gateway:
            for _ in range(20):
                assert gateway.ask("{ __typename }").status_code == 200
            gateway.process.terminate()
            status = gateway.process.wait(FLUSH_SECONDS + 4)
            errors = [json.loads(line) for line in gateway.process.errors.splitlines()]

    assert status == -signal.SIGTERM
    assert [entry["event"] for entry in errors if entry["event"] not in {"started", "stopped"}] in (
        [],
        ["telemetry is not sent"],
        ["telemetry is not sent"] * 2,
    )


def test_a_gateway_sends_what_is_left_when_it_stops(mongodb_uri: str, tmp_path: Path, collector: Collector) -> None:
    with own_database(mongodb_uri, tmp_path) as settings:
        env = environment(settings, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_BSP_SCHEDULE_DELAY="60000")
        with served(tmp_path, env) as gateway:
            gateway.ask(PRODUCTS)
            assert collector.named("query") == []
            gateway.process.terminate()
            gateway.process.wait()

    assert len(collector.named("query")) == 1
    assert collector.total("graphql.server.request.duration", operation="Shelf") == 1


def test_a_gateway_without_telemetry_does_not_import_the_sdk() -> None:
    code = """
import sys
from portico.gateway.app import create_app
from portico.gateway.settings import Settings
create_app(Settings(jwt_secret="x" * 32))
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    found = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
