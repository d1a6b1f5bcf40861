"""How long the build of an index may take."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import IndexModel
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from portico.gateway.mongo.driver import connect
from portico.gateway.settings import Settings
from portico.resolvers import indexes
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.documents import Database

pytestmark = pytest.mark.both_drivers


class Builds(CommandListener):
    """Notes the time limit of each command that builds indexes."""

    def __init__(self) -> None:
        self.limits: list[Any] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name == "createIndexes":
            self.limits.append(event.command.get("maxTimeMS"))

    def succeeded(self, event: CommandSucceededEvent) -> None: ...

    def failed(self, event: CommandFailedEvent) -> None: ...


async def test_the_build_of_an_index_has_no_time_limit(db: Database, settings: Settings) -> None:
    builds = Builds()
    connection = connect(settings, str(settings.mongodb_uri), [builds])
    await db[PRODUCTS.name].drop_index("search")
    await db[PRODUCTS.name].create_indexes([IndexModel([("title", "text")], name="search")])

    async for _ in indexes.create_indexes(connection.database, [PRODUCTS], rebuild=True):
        pass

    await connection.close()
    # All indexes together, then each by itself, and the outdated one again.
    assert builds.limits == [None] * (len(PRODUCTS.indexes) + 2)
