"""Measurements in the process of the bench, on the core of the server, beside a MongoDB on the other core."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import uvloop
from pymongo import AsyncMongoClient

from bench import mongo
from bench.processes import share_out
from portico.gateway.domains import base_resources, load, schema_of
from portico.gateway.mongo.driver import connect
from portico.gateway.operations.execution import Executor
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.cursors import Cursors
from portico.resolvers.declarations import Resources
from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.indexes import create_indexes
from portico.resolvers.served import Domains, Served

T = TypeVar("T")


def run(measure: Callable[[str, Path], Coroutine[Any, Any, T]]) -> T:
    """Call `measure` with the URI of a MongoDB and a folder for the data of a gateway. Return what it returns."""
    cores = share_out()
    with (
        tempfile.TemporaryDirectory(prefix="portico-bench-") as folder,
        mongo.running(cores.rest) as uri,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        if cores.server is not None:
            os.sched_setaffinity(0, {cores.server})
        return runner.run(measure(uri, Path(folder)))


@dataclass
class Domain:
    """A domain without HTTP, and a driver that works on the same database by hand."""

    specs: Sequence[CollectionSpec]
    db: Database
    by_hand: Database
    executor: Executor
    served: Served

    @property
    def domains(self) -> Domains:
        return self.served.domains

    @property
    def resources(self) -> Resources:
        return self.served.resources


@asynccontextmanager
async def opened(name: str, uri: str, folder: Path, database: str) -> AsyncIterator[Domain]:
    """Open a domain on a database, with its indexes."""
    settings = Settings(mongodb_uri=Secret(uri), database=database, data_dir=folder)
    domains = load([name])
    specs = next(domain for domain in domains.all if domain.name == name).collections
    connection = connect(settings, uri)
    try:
        async for _ in create_indexes(connection.database, domains.collections):
            pass
        async with (
            AsyncMongoClient[Document](uri, w="majority", maxPoolSize=100) as client,
            domains.opened(base_resources(settings, domains), connection.database) as resources,
        ):
            resources[Cursors] = Cursors(b"bench")
            executor = Executor(schema_of(domains), settings)
            yield Domain(specs, connection.database, client[database], executor, Served(domains, resources))
    finally:
        await connection.close()
