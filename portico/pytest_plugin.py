"""The pytest plugin `portico`: fixtures for tests of domains.

The tests are coroutines, which anyio runs. Set `anyio_mode = "auto"`, and define a fixture `anyio_backend` that returns
`"asyncio"`. The plugin imports Portico when a test first uses a fixture.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from pymongo.database import Database

    from portico.gateway.settings import Settings
    from portico.testing import Gateway, SettableClock

_JOURNALED = "writeConcernMajorityJournalDefault"
# Less work in the background: milliseconds between writes of the journal, and seconds between checkpoints.
_LEAN = {
    "diagnosticDataCollectionEnabled": False,
    "journalCommitInterval": 500,
    "syncdelay": 600.0,
    "quiet": True,
}


@pytest.fixture(scope="session")
def gateway_mongodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a replica set with one node. The first worker of the session starts it, and all workers share it."""
    from portico.gateway.mongo import embedded  # noqa: PLC0415 - sessions without these fixtures do not import it
    from portico.gateway.settings import Settings  # noqa: PLC0415

    base = tmp_path_factory.getbasetemp()
    folder = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    hold = embedded.attach(Settings(data_dir=folder / "mongodb"))
    acknowledge_early(hold.uri)
    yield hold.uri
    hold.close()


@pytest.fixture(scope="session")
def _gateway_database(gateway_mongodb: str) -> Iterator[Database[dict[str, Any]]]:
    """The database of the tests that this process runs. Creating one with its indexes takes longer than most tests."""
    from pymongo import MongoClient  # noqa: PLC0415

    with MongoClient[dict[str, Any]](gateway_mongodb) as client:
        name = f"test_{uuid4().hex[:16]}"
        yield client[name]
        client.drop_database(name)


@pytest.fixture
def gateway_settings(
    gateway_mongodb: str, _gateway_database: Database[dict[str, Any]], tmp_path: Path
) -> Iterator[Settings]:
    """Settings with a database that is empty when the test begins. All installed domains are served, and jobs run only
    when a test runs them. Override the fixture to change the settings.

    The next test gets the same database, with its collections and indexes, but without documents.
    """
    from portico.gateway.settings import Settings  # noqa: PLC0415
    from portico.resolvers.configuration import Secret  # noqa: PLC0415
    from portico.testing.gateways import SECRET  # noqa: PLC0415

    yield Settings(
        mongodb_uri=Secret(gateway_mongodb),
        database=_gateway_database.name,
        data_dir=tmp_path,
        jwt_secret=SECRET,
        jobs=False,
        log_level="error",
    )
    for name in _gateway_database.list_collection_names(filter={"name": {"$not": {"$regex": "^system[.]"}}}):
        _gateway_database[name].delete_many({})


@pytest.fixture
def gateway_clock() -> SettableClock:
    """The gateway's clock."""
    from portico.testing import SettableClock  # noqa: PLC0415

    return SettableClock()


@pytest.fixture
async def gateway(gateway_settings: Settings, gateway_clock: SettableClock) -> AsyncIterator[Gateway]:
    """A running gateway. Its requests are HTTP, without a network."""
    from portico.testing import running  # noqa: PLC0415

    async with running(gateway_settings, clock=gateway_clock) as running_gateway:
        yield running_gateway


def acknowledge_early(uri: str) -> None:
    """Makes the replica set acknowledge writes before they are in its journal, which takes a third of the time.

    The data survives a crash of the gateway, but the last half second of it does not survive a crash of MongoDB.
    Diagnostic data and checkpoints, which nobody needs after the session, are not written meanwhile either.
    """
    from pymongo import MongoClient  # noqa: PLC0415
    from pymongo.errors import OperationFailure  # noqa: PLC0415

    with MongoClient[dict[str, Any]](uri) as client:
        client.admin.command({"setParameter": 1, **_LEAN})
        while (config := client.admin.command("replSetGetConfig")["config"])[_JOURNALED]:
            # Another worker may change the configuration at the same moment.
            with contextlib.suppress(OperationFailure):
                changed = {**config, "version": config["version"] + 1, _JOURNALED: False}
                client.admin.command("replSetReconfig", changed)
