"""In production, the gateway refuses settings for development, and says what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graphql import get_introspection_query

from portico.gateway.app import create_app
from portico.gateway.production import advice
from portico.gateway.settings import Settings, SettingsError
from portico.resolvers.configuration import Secret
from tests.support.harness import running
from tests.support.processes import environment, eventually, portico, started

SAFE = Settings(
    production=True,
    graphiql="off",
    jwt_secret=Secret("x" * 32),
    mongodb_uri=Secret("mongodb://user:password@a,b,c/?replicaSet=shop&tls=true"),
    admin_address="127.0.0.1:9000",
    caller_rate=60_000,
    address_rate=60_000,
    log_format="json",
)
REFUSED: dict[str, dict[str, Any]] = {
    "PORTICO_GRAPHIQL must be off.": {"graphiql": "cdn"},
    "PORTICO_SHOW_PLANS must be false: plans show how the data is stored.": {"show_plans": True},
    "PORTICO_DEMO must be false: the demo has a token with all permissions.": {"demo": True},
    "PORTICO_JWKS_URL or PORTICO_JWT_SECRET must be set: a generated secret is for development.": {"jwt_secret": None},
    "PORTICO_MONGODB_URI must be set: the embedded MongoDB is for development.": {"mongodb_uri": None},
    "PORTICO_MAX_TOKENS must be at most 100000: a higher limit protects nothing.": {"max_tokens": 100_001},
    "PORTICO_MAX_DEPTH must be at most 500: a higher limit protects nothing.": {"max_depth": 501},
    "PORTICO_MAX_COST must be at most 1000000: a higher limit protects nothing.": {"max_cost": 1_000_001},
    "PORTICO_MAX_ANSWER_BYTES must be at most 100000000: a higher limit protects nothing.": {
        "max_answer_bytes": 100_000_001
    },
    "PORTICO_MAX_BODY_BYTES must be at most 100000000: a higher limit protects nothing.": {
        "max_body_bytes": 100_000_001
    },
    "PORTICO_OPERATION_SECONDS must be at most 1200: a higher limit protects nothing.": {"operation_seconds": 1_201},
}
MISSING: dict[str, dict[str, Any]] = {
    "PORTICO_MONGODB_URI has no user.": {"mongodb_uri": Secret("mongodb://a/?tls=true")},
    "PORTICO_MONGODB_URI does not use TLS.": {"mongodb_uri": Secret("mongodb://user:password@a/")},
    "PORTICO_JWT_ISSUER is not set, so tokens of every issuer with these keys are valid.": {
        "jwks_url": "https://issuer.example/keys"
    },
    "PORTICO_ADMIN_ADDRESS is not set, so nobody can read /metrics.": {"admin_address": None},
    "PORTICO_ADMIN_ADDRESS is not set, so everybody can read /metrics.": {"admin_address": None, "metrics": True},
    "PORTICO_CALLER_RATE or PORTICO_ADDRESS_RATE is not set, so one client may use a whole worker.": {
        "address_rate": None
    },
    "PORTICO_LOG_FORMAT is not json, so programs cannot read the log.": {"log_format": "console"},
}
TITLE = "PORTICO_PRODUCTION is true, so the gateway does not start:"


def test_settings_for_production_are_accepted() -> None:
    assert create_app(SAFE).state.gateway is not None
    assert advice(SAFE, is_single_server=False) is None


@pytest.mark.parametrize(("line", "setting"), REFUSED.items(), ids=REFUSED)
def test_each_setting_for_development_is_refused(line: str, setting: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        create_app(replace(SAFE, **setting))

    assert str(caught.value) == f"{TITLE}\n  * {line}"


def test_all_settings_for_development_are_refused_in_one_list() -> None:
    all_of_them: dict[str, Any] = {}
    for setting in REFUSED.values():
        all_of_them |= setting

    with pytest.raises(SettingsError) as caught:
        create_app(replace(SAFE, **all_of_them))

    assert str(caught.value).splitlines() == [TITLE, *(f"  * {line}" for line in REFUSED)]


@pytest.mark.parametrize(("line", "setting"), MISSING.items(), ids=MISSING)
def test_what_is_missing_is_listed(line: str, setting: dict[str, Any]) -> None:
    found = advice(replace(SAFE, **setting), is_single_server=False)

    assert found == f"PORTICO_PRODUCTION is true, and this is still missing:\n  * {line}"


def test_a_single_mongodb_server_is_listed() -> None:
    found = advice(SAFE, is_single_server=True)

    assert found is not None
    assert "MongoDB is a single server." in found


def test_in_development_nothing_is_refused_and_only_a_replica_set_is_missing() -> None:
    chosen = Settings(show_plans=True, demo=True, jwt_secret=Secret("x" * 32), max_depth=10_000)

    assert create_app(chosen).state.gateway is not None
    assert advice(chosen, is_single_server=False) is None
    found = advice(chosen, is_single_server=True)
    assert found is not None
    assert "Subscriptions, live queries and notifications do not work" in found


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_the_command_prints_the_list_and_ends(settings: Settings, command: str) -> None:
    ended = portico(command, "--port", "0", env=environment(replace(settings, production=True, show_plans=True)))

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[:3] == [
        f"portico: {TITLE}",
        "  * PORTICO_GRAPHIQL must be off.",
        "  * PORTICO_SHOW_PLANS must be false: plans show how the data is stored.",
    ]


def test_the_start_prints_what_is_missing_and_serves(settings: Settings, tmp_path: Path) -> None:
    chosen = environment(replace(settings, production=True, graphiql="off"))
    with started(tmp_path, chosen, "serve", "--port", "0") as process:
        eventually(lambda: "Portico is at" in process.output, 30)

        assert "this is still missing" in process.errors
        assert "PORTICO_ADMIN_ADDRESS is not set" in process.errors
        # The MongoDB of the tests is a replica set.
        assert "single server" not in process.errors


# The schema

ASKED = [get_introspection_query(), "{ __schema { queryType { name } } }", '{ __type(name: "Product") { name } }']


@pytest.mark.parametrize("executor", ["compiled", "reference"])
async def test_in_production_clients_learn_nothing_of_the_schema(settings: Settings, executor: Any) -> None:
    async with running(replace(settings, production=True, graphiql="off", executor=executor)) as gateway:
        shown = [await gateway.ask(query) for query in ASKED]
        wrong = await gateway.ask("{ viewer { subjec } }")
        variable = await gateway.ask(
            "mutation ($input: CreateCategoryInput!) { createCategory(input: $input) { __typename } }",
            {"input": {"name": "A", "slugg": "a", "slug": "a"}},
        )
        typename = await gateway.ask("{ __typename viewer { __typename subject } }")

    assert [set(answer.codes) for answer in shown] == [{"GRAPHQL_VALIDATION_FAILED"}] * len(ASKED)
    assert all(answer.body.get("data") is None for answer in shown)
    assert wrong.body["errors"][0]["message"] == "Cannot query field 'subjec' on type 'Viewer'."
    assert "slugg" in variable.body["errors"][0]["message"]
    assert "Did you mean" not in str(variable.body)
    assert typename.data == {"__typename": "Query", "viewer": {"__typename": "Viewer", "subject": "tester"}}


async def test_the_setting_allows_introspection_and_suggestions_in_production(settings: Settings) -> None:
    chosen = replace(settings, production=True, graphiql="off", introspection=True)
    async with running(chosen) as gateway:
        shown = await gateway.ask("{ __schema { queryType { name } } }")
        wrong = await gateway.ask("{ viewer { subjec } }")

    assert shown.data == {"__schema": {"queryType": {"name": "Query"}}}
    assert "Did you mean 'subject'?" in wrong.body["errors"][0]["message"]


async def test_introspection_may_be_refused_in_development_too(settings: Settings) -> None:
    async with running(replace(settings, introspection=False)) as gateway:
        shown = await gateway.ask("{ __schema { queryType { name } } }")

    assert set(shown.codes) == {"GRAPHQL_VALIDATION_FAILED"}
