"""A real MongoDB for the session, a database for each test, and a gateway on that database."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import hypothesis
import pytest
from pymongo import MongoClient

from portico.gateway.mongo import embedded
from portico.gateway.mongo.driver import connect
from portico.gateway.settings import Driver, ExecutorName, Settings
from portico.pytest_plugin import acknowledge_early
from portico.resolvers.documents import Database
from portico.resolvers.shop.payments import PaymentMethods
from tests.catalog.support.catalog import shared_gateway
from tests.shop.support.shop import Provider
from tests.support import brief_logs, driver_faults, http_clients, memory_folders, parsed_documents
from tests.support.databases import create_all_indexes, database, disconnect, has_indexes, skip_known_indexes, stored_in
from tests.support.demo import Demo, RestoredDemo, load_demo_once
from tests.support.domains import create_indexes
from tests.support.harness import IS_SOAK, SECRET, Commands, GatewayClient, SettableClock, running
from tests.support.order import long_first
from tests.support.samples import left_out
from tests.support.sockets import Socket, listening, opened

# Nothing that the collection of the tests creates is garbage. The collector would take a quarter of its time.
gc.disable()
# The settings of a developer must not reach a test.
for _name in [name for name in os.environ if name.startswith(("PORTICO_", "OTEL_")) and name != "PORTICO_SHARED_DATA"]:
    del os.environ[_name]

# Fixtures of several modules.
pytest_plugins = ["tests.support.kept_answers", "tests.support.fixtures"]
# A driver and an executor. Every test runs on the first. The tests with the mark `both_drivers`, which together send
# every kind of command and run every kind of field, run on both if the seed chooses them. `make soak` runs all tests on
# both.
Variant = tuple[Driver, ExecutorName]
VARIANTS: list[Variant] = [("pymongo", "compiled"), ("motor", "reference")]
_folders = itertools.count(1)

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("portico", deadline=None)
hypothesis.settings.load_profile("portico")
driver_faults.patch_driver()
http_clients.patch_clients()
skip_known_indexes()
parsed_documents.keep_parsed_documents()
brief_logs.shorten_crashes()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--driver", choices=("pymongo", "motor"), default="pymongo", help="the driver to test with")
    parser.addoption(
        "--executor", choices=("compiled", "reference"), default="compiled", help="the executor to test with"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with this mark on the other driver and executor, too, unless the options choose one for all tests.

    Each run takes a third of these tests there.
    """
    is_marked = metafunc.definition.get_closest_marker("both_drivers") is not None
    if is_marked and "variant" in metafunc.fixturenames and _chosen(metafunc.config) == VARIANTS[0]:
        first, other = VARIANTS
        given = [pytest.param(first), pytest.param(other, marks=pytest.mark.sample(3))]
        metafunc.parametrize("variant", given, indirect=True, ids="-".join)


def _chosen(config: pytest.Config) -> Variant:
    return config.getoption("driver"), config.getoption("executor")


def _wants_some(config: pytest.Config) -> bool:
    """Whether a sample is enough: not in a soak, and not for tests that somebody has named."""
    is_soak = IS_SOAK or _chosen(config) != VARIANTS[0]
    return not (is_soak or config.getoption("keyword") or any("::" in given for given in config.args))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the tests that use a driver or an executor, if the run is for another driver or executor.

    Leave out some tests of large families, unless all of them are wanted. Begin with the tests that take long.
    """
    if _wants_some(config):
        left = left_out(items, config.getoption("randomly_seed"))
        config.hook.pytest_deselected(items=[*left])
        items[:] = [item for item in items if item not in left]
    if _chosen(config) != VARIANTS[0]:
        kept = [item for item in items if {"settings", "shared"} & {*getattr(item, "fixturenames", ())}]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = long_first(items, workers)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from visiting the tests and their modules again and again, and from running often."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says after a failure how to stop calls at the same places again."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(
            f"To try the same places and cases again: --randomly-seed={config.getoption('randomly_seed')}"
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes what the session has kept in memory. The workers have ended."""
    if not os.environ.get("PYTEST_XDIST_WORKER") and (session := config._tmp_path_factory._basetemp) is not None:  # type: ignore[attr-defined]
        memory_folders.remove_unused(session)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The event loop of `portico serve`."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def mongodb_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A replica set with one node. The workers of the session share it: the first worker starts it.

    Its node never changes, so clients ask for its state from time to time, instead of waiting for changes on a
    connection of their own. Each test has a new client.
    """
    hold = embedded.attach(Settings(data_dir=memory_folders.mongodb_folder(_folder_of_session(tmp_path_factory))))
    acknowledge_early(hold.uri)
    yield f"{hold.uri}&serverMonitoringMode=poll"
    disconnect()
    hold.close()


def _folder_of_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all workers of the session share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Variant:
    """The driver and the executor of the test."""
    return cast("Variant", getattr(request, "param", _chosen(request.config)))


@pytest.fixture
def settings(mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory, variant: Variant) -> Iterator[Settings]:
    """Settings with a separate database for the test, and a folder that does not exist yet."""
    driver, executor = variant
    folder = tmp_path_factory.getbasetemp() / f"data-{next(_folders)}"
    with database(mongodb_uri) as name:
        yield Settings(
            mongodb_uri=mongodb_uri,  # type: ignore[arg-type]
            database=name,
            data_dir=folder,
            driver=driver,
            executor=executor,
            jwt_secret=SECRET,
            # Tests run the jobs themselves.
            jobs=False,
            log_level="error",
        )


@pytest.fixture
def commands() -> Commands:
    """Every command that the gateway under test sends to MongoDB."""
    return Commands()


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
async def db(settings: Settings) -> AsyncIterator[Database]:
    """The database of the test, with all indexes, on a connection separate from any gateway."""
    assert settings.mongodb_uri is not None
    connection = connect(settings, settings.mongodb_uri)
    if not has_indexes(settings.database):
        async for _ in create_indexes(connection.database):
            pass
    yield connection.database
    await connection.close()


@pytest.fixture
async def gateway(settings: Settings, clock: SettableClock, commands: Commands) -> AsyncIterator[GatewayClient]:
    """A running gateway. The client sends requests over HTTP without a network."""
    async with running(settings, clock=clock, commands=commands) as client:
        yield client


@pytest.fixture(scope="module")
async def shared(
    mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> AsyncIterator[GatewayClient]:
    """A running gateway on an empty database, which a fixture of the module may fill for all tests of the module."""
    async with shared_gateway(mongodb_uri, tmp_path_factory.mktemp("shared"), pytestconfig) as gateway:
        yield gateway


@pytest.fixture(scope="module")
async def reader(shared: GatewayClient) -> AsyncIterator[GatewayClient]:
    """A running gateway on an empty database. The tests of a module share it, so they must not write."""
    before = await stored_in(shared.db)
    yield shared
    assert await stored_in(shared.db) == before, "a test that uses `reader` has written"


@pytest.fixture(scope="session")
def loaded_demo(mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo's data in a database of its own. Tests must not change it."""
    return load_demo_once(mongodb_uri, _folder_of_session(tmp_path_factory))


@pytest.fixture
async def demo_gateway(loaded_demo: Demo, settings: Settings) -> AsyncIterator[GatewayClient]:
    """A running gateway on the demo's data, which all tests share. The tests must not write."""
    async with running(replace(settings, database=loaded_demo.database)) as gateway:
        before = await stored_in(gateway.db)
        yield gateway
        assert await stored_in(gateway.db) == before, "a test that uses `demo_gateway` has written"


@pytest.fixture(scope="module")
def restored_demo(mongodb_uri: str, loaded_demo: Demo) -> Iterator[RestoredDemo]:
    """The demo's data in a database for the tests of a module. Each restores what it has changed."""
    with database(mongodb_uri) as name, MongoClient[dict[str, Any]](mongodb_uri) as client:
        create_all_indexes(client[name])
        yield RestoredDemo(loaded_demo, client[name])


@pytest.fixture
def demo(loaded_demo: Demo, settings: Settings) -> Demo:
    """The demo, with a copy of its data in the database of the test."""
    loaded_demo.copy_to(settings)
    return loaded_demo


@pytest.fixture
def provider(gateway: GatewayClient) -> Provider:
    """The payment provider of the gateway."""
    provider = Provider()
    gateway.state.resources[PaymentMethods] = provider
    return provider


@pytest.fixture
async def port(gateway: GatewayClient) -> AsyncIterator[int]:
    """The port on which the gateway is served, as by `portico serve`."""
    async with listening(gateway) as found:
        yield found


@pytest.fixture
async def socket(port: int) -> AsyncIterator[Socket]:
    """A WebSocket to the gateway, before the first message."""
    async with opened(port) as found:
        yield found
