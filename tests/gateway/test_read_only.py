"""A gateway that only reads, users of MongoDB without rights, and other names of the core collections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from portico.gateway.mongo.driver import connect
from portico.gateway.mongo.rights import require_rights
from portico.gateway.settings import Settings, SettingsError
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import ReadOnly
from tests.support.harness import GatewayClient, category_input, create_category, running, with_settings
from tests.support.processes import environment, portico, served
from tests.support.secure_mongodb import secure_mongodb

CREATE = "mutation ($input: CreateCategoryInput!) { createCategory(input: $input) { __typename } }"
PASSWORD = "secret"
WRITING = ("demo", "import products x.jsonl", "indexes", "migrate", "worker", "rollup", "doctor --repair")


async def test_a_read_only_gateway_reads_and_refuses_every_mutation(settings: Settings) -> None:
    async with running(settings) as gateway:
        category = await create_category(gateway)
        before = await contents(gateway)
    async with running(replace(settings, read_only=True)) as gateway:
        found = await gateway.data("query ($id: ID!) { node(id: $id) { id } }", {"id": category["id"]})
        for key in ({}, {"idempotencyKey": "one"}):
            answer = await gateway.ask(CREATE, {"input": category_input(slug="other", **key)})
            assert answer.codes == ["READ_ONLY"]

        assert found == {"node": {"id": category["id"]}}
        assert await contents(gateway) == before


async def contents(gateway: GatewayClient) -> dict[str, list[Any]]:
    """Everything that is stored, with the names of the indexes."""
    found = {}
    for name in sorted(await gateway.db.list_collection_names()):
        indexes = [index["name"] async for index in await gateway.db[name].list_indexes()]
        found[name] = [await gateway.db[name].find({}).to_list(), sorted(indexes)]
    # A gateway that stops releases the leases of its jobs.
    found.pop("leases", None)
    return found


async def test_a_read_only_gateway_creates_no_collection_and_runs_no_job(settings: Settings) -> None:
    empty = replace(settings, database=f"{settings.database}_empty", read_only=True, jobs=True, job_seconds=0.01)
    async with running(empty) as gateway:
        assert await gateway.data("{ products { nodes { id } } }") == {"products": {"nodes": []}}
        assert await gateway.db.list_collection_names() == []


async def test_a_read_only_gateway_shows_old_documents_upgraded_and_stores_nothing(settings: Settings) -> None:
    old = {"sku": "old", "type": "Audio Album", "title": "Old", "details": {"genre": "Jazz"}}
    async with running(settings) as gateway:
        await gateway.db["products"].insert_one(dict(old))
    async with running(replace(settings, read_only=True)) as gateway:
        data = await gateway.data('{ product(sku: "old") { title } }')

        assert data == {"product": {"title": "Old"}}
        stored = await gateway.db["products"].find_one({"sku": "old"}, {"_id": 0})
        assert stored == old


@pytest.mark.parametrize("driver", ["pymongo", "motor"])
async def test_no_write_of_a_read_only_gateway_is_sent(settings: Settings, driver: Any) -> None:
    assert settings.mongodb_uri is not None
    connection = connect(replace(settings, read_only=True, driver=driver), settings.mongodb_uri)
    try:
        for database in (connection.database, connection.reading):
            for collection in (
                database["things"],
                database.with_options()["things"],
                database["things"].with_options(),
            ):
                with pytest.raises(ReadOnly, match="does not write to things"):
                    await collection.insert_one({})
                assert await collection.find_one({}) is None
    finally:
        await connection.close()


@pytest.mark.sample(3)
@pytest.mark.parametrize("command", WRITING)
def test_a_command_that_writes_does_not_run_if_the_gateway_is_read_only(
    settings: Settings, tmp_path: Path, command: str
) -> None:
    (tmp_path / "x.jsonl").write_text("")
    done = portico(*command.split(), env=environment(settings, PORTICO_READ_ONLY="true"), cwd=tmp_path)

    line = "portico: PORTICO_READ_ONLY is true, so a command that writes does not run.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", line)


async def test_a_read_only_gateway_cannot_log_its_requests(settings: Settings) -> None:
    given = with_settings(replace(settings, read_only=True), AnalyticsSettings, log_requests=1.0)

    with pytest.raises(SettingsError, match="PORTICO_LOG_REQUESTS must not be set if PORTICO_READ_ONLY is true"):
        async with running(given):
            raise AssertionError("it has started")


# Rights


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a MongoDB with the users `reader`, `blind` and `partial`, whose password is `secret`."""
    with secure_mongodb(tmp_path_factory.mktemp("secured")) as uri:
        with MongoClient[dict[str, Any]](uri) as client:
            partial = [
                {"resource": {"db": "portico", "collection": ""}, "actions": ["find", "changeStream"]},
                {"resource": {"db": "portico", "collection": "things"}, "actions": ["insert", "update", "createIndex"]},
            ]
            client["admin"].command("createRole", "partial", privileges=partial, roles=[])
            for name, roles in {
                "reader": [{"role": "read", "db": "portico"}],
                "writer": [{"role": "readWrite", "db": "portico"}],
                "blind": [{"role": "read", "db": "other"}],
                "partial": ["partial"],
            }.items():
                client["admin"].command("createUser", name, pwd=PASSWORD, roles=roles)
        yield uri


def as_user(uri: str, name: str) -> Secret:
    return Secret(f"mongodb://{name}:{PASSWORD}@{uri.partition('@')[2]}")


@pytest.mark.parametrize(
    ("user", "to_write", "line"),
    [
        ("portico", True, None),
        ("writer", True, None),
        ("reader", False, None),
        (
            "reader",
            True,
            (
                "MongoDB: the user reader lacks the right createIndex, insert, remove, update in portico.things. "
                "Grant the user the role readWrite on the database portico, or set PORTICO_READ_ONLY=true to serve "
                "without writing."
            ),
        ),
        (
            "blind",
            False,
            (
                "MongoDB: the user blind lacks the right changeStream, find in the database portico. "
                "Grant the user the role read on the database portico."
            ),
        ),
        (
            "partial",
            True,
            (
                "MongoDB: the user partial lacks the right remove in portico.things. Grant the user the role "
                "readWrite on the database portico, or set PORTICO_READ_ONLY=true to serve without writing."
            ),
        ),
    ],
)
async def test_a_missing_right_is_named_in_one_line(secured: str, user: str, to_write: bool, line: str | None) -> None:
    uri = Secret(secured) if user == "portico" else as_user(secured, user)
    connection = connect(Settings(mongodb_uri=uri), uri)
    try:
        if line is None:
            await require_rights(connection.database, ["things"], to_write=to_write)
        else:
            with pytest.raises(SettingsError) as failure:
                await require_rights(connection.database, ["things"], to_write=to_write)
            assert str(failure.value) == line
    finally:
        await connection.close()


def test_serve_with_a_user_who_can_only_read_says_so_in_one_line(secured: str, tmp_path: Path) -> None:
    env = environment(PORTICO_MONGODB_URI=as_user(secured, "reader"), PORTICO_DATA_DIR=str(tmp_path))

    for command in ("serve", "indexes", "worker"):
        done = portico(command, env=env, cwd=tmp_path)

        assert done.returncode == 1
        assert "Portico is at" not in done.stdout
        assert done.stderr.startswith("portico: MongoDB: the user reader lacks the right createIndex, insert,")
        assert done.stderr.count("\n") == 1


def test_a_read_only_gateway_serves_with_a_user_who_can_only_read(secured: str, tmp_path: Path) -> None:
    env = environment(
        PORTICO_MONGODB_URI=as_user(secured, "reader"), PORTICO_DATA_DIR=str(tmp_path), PORTICO_READ_ONLY="true"
    )
    with served(tmp_path, env) as server:
        assert server.ask("{ products { nodes { id } } }").json() == {"data": {"products": {"nodes": []}}}
        refused = server.ask('mutation { deleteCategory(input: { id: "x" }) { __typename } }').json()
        assert refused["errors"][0]["extensions"]["code"] == "READ_ONLY"


# Names of the core collections


@pytest.mark.sample(2)
@pytest.mark.parametrize("driver", ["pymongo", "motor"])
async def test_core_collections_have_the_prefix_of_the_setting(settings: Settings, driver: Any) -> None:
    prefixed = replace(settings, database=f"{settings.database}_named", core_prefix="portico_", driver=driver)
    given = {"input": category_input(idempotencyKey="one")}
    async with running(replace(prefixed, jobs=True)) as gateway:
        for _ in range(2):
            answer = await gateway.data(CREATE, given)
            assert answer == {"createCategory": {"__typename": "CategoryPayload"}}
        names = set(await gateway.db.list_collection_names())

        assert {"portico_operations", "portico_intents", "portico_leases", "categories"} <= names
        assert names.isdisjoint({"operations", "intents", "leases", "secrets"})
        assert await gateway.db["operations"].count_documents({}) == 1
        await gateway.db.client.drop_database(gateway.db.name)


@pytest.mark.parametrize("prefix", ["$", "system.", "a b", "1", "x" * 52])
def test_an_invalid_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(SettingsError, match="PORTICO_CORE_PREFIX must have up to 51 letters"):
        connect(Settings(core_prefix=prefix), "mongodb://127.0.0.1/")
