"""Trusted documents: the files that build tools write, the ways to refer to a document, and what is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from portico.gateway.app import create_app
from portico.gateway.operations.manifests import DocumentsError
from portico.gateway.operations.plans import compiler, flat
from portico.gateway.settings import Settings, SettingsError
from tests.gateway.support.subscribers import acknowledged
from tests.support.harness import GatewayClient, running
from tests.support.processes import environment, portico, served, started
from tests.support.sockets import EVENTS, EventStream, listening

VIEWER = "query Viewer {\n  viewer {\n    subject\n  }\n}"
PRODUCTS = (
    "query Products($first: Int!, $full: Boolean!) {\n  products(first: $first) {\n    nodes {\n      __typename\n"
    "      id\n      title @include(if: $full)\n    }\n  }\n}"
)
CREATE = "mutation Create($input: CreateCategoryInput!) { createCategory(input: $input) { __typename } }"
POSTED = "subscription Posted { commentPosted(discussionId: 1) { text } }"
TEXTS = (VIEWER, PRODUCTS, CREATE, POSTED)
JSON = {"accept": "application/json"}
ANN = {"data": {"viewer": {"subject": "ann"}}}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def apollo(texts: Sequence[str] = TEXTS, **more: Any) -> dict[str, Any]:
    """The manifest of @apollo/generate-persisted-query-manifest, as version 1.4 writes it."""
    operations = [
        {"id": sha256(text), "name": text.split()[1].partition("(")[0], "type": text.split()[0], "body": text, **more}
        for text in texts
    ]
    return {"format": "apollo-persisted-query-manifest", "version": 1, "operations": operations}


def relay(texts: Sequence[str] = TEXTS) -> dict[str, str]:
    """The file of Relay's compiler with `persistConfig.file`: MD5 hashes."""
    return {hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(): text for text in texts}


def preset(texts: Sequence[str] = TEXTS) -> dict[str, str]:
    """The file `persisted-documents.json` of the client preset of GraphQL Code Generator: SHA-1 hashes."""
    return {hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(): text for text in texts}


def prefixed(texts: Sequence[str] = TEXTS) -> dict[str, str]:
    return {f"sha256:{sha256(text)}": text for text in texts}


FORMS = {"apollo": apollo, "relay": relay, "preset": preset, "prefixed": prefixed}


def written(folder: Path, content: Any, name: str = "web.json") -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def ids_of(content: Mapping[str, Any]) -> list[str]:
    return [one["id"] for one in content["operations"]] if "operations" in content else list(content)


def persisted(key: str) -> dict[str, Any]:
    return {"persistedQuery": {"version": 1, "sha256Hash": key}}


@pytest.fixture
async def gateway(settings: Settings, tmp_path: Path) -> AsyncIterator[GatewayClient]:
    chosen = replace(settings, document_files=written(tmp_path, apollo()), documents="only", log_level="warning")
    async with running(chosen) as client:
        yield client


async def sent(gateway: GatewayClient, body: Mapping[str, Any], **options: Any) -> Any:
    headers = {"authorization": f"Bearer {gateway.token('ann', [])}", **JSON}
    return (await gateway.http.post("/graphql", json=body, headers={**headers, **options})).json()


def codes(answer: Any) -> list[str]:
    return [error["extensions"]["code"] for error in answer["errors"]]


# Files and ids


@pytest.mark.parametrize("form", FORMS)
async def test_a_document_runs_by_its_id_and_its_hash(settings: Settings, tmp_path: Path, form: str) -> None:
    content = FORMS[form]()
    async with running(replace(settings, document_files=written(tmp_path, content), documents="only")) as gateway:
        for key in (ids_of(content)[0], f"sha256:{sha256(VIEWER)}", sha256(VIEWER)):
            assert await sent(gateway, {"documentId": key}) == ANN
            assert await sent(gateway, {"extensions": persisted(key)}) == ANN
            assert await sent(gateway, {"query": VIEWER, "extensions": persisted(key)}) == ANN
            assert await sent(gateway, {"documentId": key, "query": None, "operationName": "Viewer"}) == ANN


async def test_several_files_can_have_the_same_documents(settings: Settings, tmp_path: Path) -> None:
    files = [written(tmp_path, FORMS[form](), f"{form}.json") for form in FORMS]
    async with running(replace(settings, document_files=", ".join(files), documents="only")) as gateway:
        for form in FORMS.values():
            assert await sent(gateway, {"documentId": ids_of(form())[0]}) == ANN


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "web.json is not JSON in UTF-8"),
        ("[]", "web.json must be a JSON object"),
        ({}, "web.json has no documents"),
        ({"a": 1}, "web.json: the value of 'a' must be the text of a document"),
        ({**apollo(), "version": 2}, "web.json must have the version 1; got 2."),
        ({**apollo(), "operations": None}, "web.json must have a list of `operations`"),
        ({**apollo(), "operations": [{"id": "a"}]}, r"`operations\[0\]` must have an `id` and a `body`"),
        ({f"sha256:{sha256('other')}": VIEWER}, "the id is not the SHA-256 hash of the text"),
    ],
)
def test_a_file_of_another_form_ends_the_start(settings: Settings, tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DocumentsError, match=message):
        create_app(replace(settings, document_files=written(tmp_path, content)))


def test_an_id_with_two_texts_ends_the_start(settings: Settings, tmp_path: Path) -> None:
    files = [written(tmp_path, {"a": VIEWER}), written(tmp_path, {"a": VIEWER + "\n"}, "app.json")]

    with pytest.raises(DocumentsError, match=r"the same id: web.json: a, and app.json: a"):
        create_app(replace(settings, document_files=",".join(files)))


def test_documents_that_do_not_fit_end_the_start_with_client_document_and_field(
    settings: Settings, tmp_path: Path
) -> None:
    broken = apollo([VIEWER, "query Old { viewer { subject address } }"])
    named = apollo(["query Older { shop { name } }"], clientName="till")
    files = [written(tmp_path, broken), written(tmp_path, named, "other.json")]

    with pytest.raises(DocumentsError) as refused:
        create_app(replace(settings, document_files=",".join(files)))

    assert str(refused.value).splitlines() == [
        "Trusted documents do not fit the schema:",
        f"  * web.json: Old ({ids_of(broken)[1]}): Cannot query field 'address' on type 'Viewer'. (line 1, column 30)",
        f"  * till: Older ({ids_of(named)[0]}): Cannot query field 'shop' on type 'Query'. (line 1, column 15)",
    ]


@pytest.mark.parametrize("mode", ["prefer", "only"])
def test_trusting_documents_only_needs_a_file(settings: Settings, mode: Any) -> None:
    with pytest.raises(SettingsError, match="PORTICO_DOCUMENT_FILES must name a file"):
        create_app(replace(settings, documents=mode))


# Protocols


async def test_a_get_finds_a_document_also_from_a_browser(gateway: GatewayClient) -> None:
    for parameters in (
        {"documentId": f"sha256:{sha256(VIEWER)}"},
        {"extensions": json.dumps(persisted(sha256(VIEWER))), "operationName": ""},
    ):
        for accept in ("application/graphql-response+json", "text/html,application/json"):
            answer = await gateway.http.get("/graphql", params=parameters, headers={"accept": accept})
            assert (answer.status_code, answer.json()) == (200, {"data": {"viewer": None}})


async def test_a_mutation_by_get_is_refused(gateway: GatewayClient) -> None:
    answer = await gateway.http.get("/graphql", params={"documentId": sha256(CREATE)})

    assert answer.status_code == 405
    assert codes(answer.json()) == ["METHOD_NOT_ALLOWED"]


async def test_conditions_and_variables_of_a_document_count(gateway: GatewayClient) -> None:
    given = {"documentId": sha256(PRODUCTS), "variables": {"first": 1, "full": False}}
    assert await sent(gateway, given) == {"data": {"products": {"nodes": []}}}

    answer = await sent(gateway, {"documentId": sha256(PRODUCTS), "variables": {"first": 1}})
    assert codes(answer) == ["BAD_USER_INPUT"]


async def test_a_stream_of_events_runs_documents_only(gateway: GatewayClient) -> None:
    async def events(body: Any) -> list[Any]:
        found = []
        async with gateway.http.stream("POST", "/graphql", json=body, headers=EVENTS) as response:
            stream = EventStream(response)
            while (event := await stream.receive()) is not None:
                found.append(event)
        return found

    complete = ("complete", None)
    assert await events({"documentId": sha256(VIEWER)}) == [("next", {"data": {"viewer": None}}), complete]
    subscribed = await events({"documentId": sha256(POSTED)})
    assert (codes(subscribed[0][1]), subscribed[1]) == (["NOT_FOUND"], complete)
    refused = await events({"query": "{ viewer { subject } }"})
    assert (codes(refused[0][1]), refused[1]) == (["DOCUMENT_NOT_TRUSTED"], complete)


async def test_a_websocket_runs_documents_only(gateway: GatewayClient) -> None:
    async with listening(gateway) as port, acknowledged(port) as socket:

        async def answer(**payload: Any) -> Any:
            await socket.send({"id": "1", "type": "subscribe", "payload": payload})
            first = await socket.receive()
            if first["type"] == "next":
                assert await socket.receive() == {"id": "1", "type": "complete"}
            return first["payload"]

        assert await answer(documentId=f"sha256:{sha256(VIEWER)}") == {"data": {"viewer": None}}
        assert await answer(query=VIEWER, extensions=persisted(sha256(VIEWER))) == {"data": {"viewer": None}}
        assert codes({"errors": await answer(documentId=sha256(POSTED))}) == ["NOT_FOUND"]
        assert codes({"errors": await answer(documentId="unknown")}) == ["DOCUMENT_NOT_FOUND"]
        assert codes({"errors": await answer(query="{ viewer { subject } }")}) == ["DOCUMENT_NOT_TRUSTED"]


async def test_an_upload_runs_documents_only(gateway: GatewayClient) -> None:
    async def upload(**operations: Any) -> Any:
        parts = {"operations": (None, json.dumps(operations)), "map": (None, "{}")}
        headers = {"graphql-require-preflight": "true", **JSON}
        return (await gateway.http.post("/graphql", files=parts, headers=headers)).json()

    assert await upload(documentId=sha256(VIEWER)) == {"data": {"viewer": None}}
    assert codes(await upload(query="{ viewer { subject } }")) == ["DOCUMENT_NOT_TRUSTED"]


# Refusals


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"query": "{ viewer { subject } }"}, "DOCUMENT_NOT_TRUSTED"),
        ({"query": "{ __schema { types { name } } }"}, "DOCUMENT_NOT_TRUSTED"),
        ({"query": "{ __typename }"}, "DOCUMENT_NOT_TRUSTED"),
        ({"query": "{"}, "DOCUMENT_NOT_TRUSTED"),
        ({"query": VIEWER + " "}, "DOCUMENT_NOT_TRUSTED"),
        ({"query": "{ __typename }", "extensions": persisted(sha256("{ __typename }"))}, "DOCUMENT_NOT_TRUSTED"),
        ({"extensions": persisted(sha256("{ __typename }"))}, "DOCUMENT_NOT_FOUND"),
        ({"documentId": "unknown"}, "DOCUMENT_NOT_FOUND"),
        ({"documentId": "sha256:" + "0" * 64}, "DOCUMENT_NOT_FOUND"),
        ({"query": PRODUCTS, "extensions": persisted(sha256(VIEWER))}, "PERSISTED_QUERY_HASH_MISMATCH"),
        ({"query": VIEWER, "documentId": sha256(VIEWER)}, "BAD_REQUEST"),
        ({"documentId": ""}, "BAD_REQUEST"),
        ({"documentId": 1}, "BAD_REQUEST"),
        ({"extensions": {"persistedQuery": {"version": 2, "sha256Hash": sha256(VIEWER)}}}, "BAD_REQUEST"),
        ({"extensions": {"persistedQuery": 1}}, "BAD_REQUEST"),
        ({"extensions": {"persistedQuery": None}}, "BAD_REQUEST"),
        ({}, "BAD_REQUEST"),
    ],
)
async def test_everything_else_is_refused(gateway: GatewayClient, body: Any, code: str) -> None:
    assert codes(await sent(gateway, body)) == [code]


async def test_the_text_of_a_document_runs(gateway: GatewayClient) -> None:
    assert await sent(gateway, {"query": VIEWER}) == ANN


async def test_what_is_refused_is_in_the_log_once_and_counted(gateway: GatewayClient) -> None:
    with capture_logs() as logs:
        for _ in range(2):
            await sent(gateway, {"query": "query Odd { viewer { subject } }", "operationName": "Odd"}, **CLIENT)

    text = "query Odd { viewer { subject } }"
    about = {"operation": "Odd", "client": "till", "sha256": sha256(text), "text": text, "not_logged": 0}
    assert logs == [{"event": "untrusted document", "log_level": "warning", "outcome": "refused", **about}]
    metrics = (await gateway.http.get("/metrics")).text
    assert 'portico_untrusted_documents_total{outcome="refused"} 2.0' in metrics


CLIENT = {"apollographql-client-name": "till"}


@pytest.mark.parametrize("mode", ["prefer", "any"])
async def test_otherwise_other_texts_run_and_only_with_prefer_they_are_logged(
    settings: Settings, tmp_path: Path, mode: Any
) -> None:
    files = written(tmp_path, apollo())
    async with running(replace(settings, document_files=files, documents=mode, log_level="warning")) as gateway:
        with capture_logs() as logs:
            assert await sent(gateway, {"query": "{ viewer { subject } }"}) == ANN
            assert await sent(gateway, {"query": VIEWER}) == ANN
            assert await sent(gateway, {"documentId": sha256(VIEWER)}) == ANN

    shown = [(line["event"], line["outcome"], line["text"]) for line in logs]
    assert shown == ([("untrusted document", "ran", "{ viewer { subject } }")] if mode == "prefer" else [])


async def test_many_different_texts_log_a_bounded_number_of_lines(gateway: GatewayClient) -> None:
    with capture_logs() as logs:
        for number in range(150):
            await sent(gateway, {"query": f"{{ a{number}: __typename }}"})

    # A minute has 60 lines. If it ends meanwhile, the next one has up to 60 others.
    assert 60 <= len(logs) <= 120


async def test_there_is_no_graphiql_with_trusted_documents_only(gateway: GatewayClient) -> None:
    for path in ("/", "/graphql"):
        page = await gateway.http.get(path, headers={"accept": "text/html"})
        assert "GraphiQL is turned off" in page.text
    assert (await gateway.http.get("/graphiql/config.json")).status_code == 404


# Compiled at start


async def test_a_first_call_compiles_nothing(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = replace(settings, executor="compiled", document_files=written(tmp_path, apollo()))
    async with running(chosen) as gateway:

        def compiled(*_: Any) -> Any:
            raise AssertionError("compiled")

        monkeypatch.setattr(compiler, "compile_operation", compiled)
        monkeypatch.setattr(compiler._Compiler, "object_plan", compiled)
        monkeypatch.setattr(flat, "_code", compiled)
        monkeypatch.setattr(type(gateway.state.executor.operations), "_parse", compiled)
        for full in (True, False):
            given = {"documentId": sha256(PRODUCTS), "variables": {"first": 1, "full": full}}
            assert await sent(gateway, given) == {"data": {"products": {"nodes": []}}}
        given = {"documentId": sha256(CREATE), "variables": {"input": {"name": "A", "slug": ""}}}
        merchant = {"authorization": f"Bearer {gateway.token()}"}
        assert await sent(gateway, given, **merchant) == {"data": {"createCategory": {"__typename": "InvalidInput"}}}
        assert gateway.state.executor.plans.fallbacks == {}


# The command line


def test_the_command_checks_files(tmp_path: Path) -> None:
    good, other = written(tmp_path, apollo()), written(tmp_path, relay([VIEWER]), "app.json")
    bad = written(tmp_path, {"a": "{ nothing }"}, "bad.json")

    done = portico("documents", "--check", good, other, env=environment())
    failed = portico("documents", "--check", good, "--check", bad, env=environment())
    named = portico("documents", env=environment(PORTICO_DOCUMENT_FILES=bad))

    assert (done.returncode, done.stdout) == (0, "5 trusted documents fit the schema.\n")
    for one in (failed, named):
        assert one.returncode == 1
        assert "bad.json: a: Cannot query field 'nothing' on type 'Query'." in one.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_served_documents_reach_each_worker(settings: Settings, tmp_path: Path, workers: str) -> None:
    file, other = written(tmp_path, apollo([VIEWER])), written(tmp_path, relay([PRODUCTS]), "app.json")
    env = environment(settings, PORTICO_DOCUMENTS="only")
    with served(tmp_path / "serves", env, "--workers", workers, "--documents", file, other) as server:
        assert server.ask("{ viewer { subject } }").json()["errors"][0]["extensions"]["code"] == "DOCUMENT_NOT_TRUSTED"
        assert server.ask(VIEWER).json() == {"data": {"viewer": None}}


@pytest.mark.sample(2)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_document_that_does_not_fit_ends_the_start(settings: Settings, tmp_path: Path, workers: str) -> None:
    bad = written(tmp_path, {"a": "{ nothing }"})
    arguments = ("serve", "--port", "0", "--workers", workers, "--documents", bad)
    with started(tmp_path / "ends", environment(settings), *arguments) as process:
        assert process.wait() == 1
        assert "web.json: a: Cannot query field 'nothing' on type 'Query'." in process.errors
        assert "Portico is at" not in process.output


def test_a_file_without_its_option_is_refused(tmp_path: Path) -> None:
    done = portico("serve", "--port", "0", str(tmp_path / "web.json"), env=environment())

    assert done.returncode == 1
    assert "unexpected argument" in done.stderr
