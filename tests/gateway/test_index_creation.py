"""How long the build of an index may take, and what happens to the others if one cannot be built."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from portico.gateway.mongo.driver import connect
from portico.gateway.settings import Settings
from portico.resolvers import indexes
from portico.resolvers.catalog.categories import CATEGORIES
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.documents import Database
from tests.support.domains import create_indexes

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


async def test_duplicates_are_named_at_once_and_all_other_indexes_are_built(db: Database) -> None:
    for spec, unique in ((CATEGORIES, "slug"), (PRODUCTS, "sku")):
        await db[spec.name].drop_indexes()
        await db[spec.name].insert_many([{unique: "twice"}, {unique: "twice"}, {unique: "once"}])

    with pytest.raises(DuplicateKeyError) as refused:
        async for _ in create_indexes(db):
            pass

    for spec, missing in ((CATEGORIES, "slug_1"), (PRODUCTS, "sku_1")):
        declared = {index.document["name"] for index in spec.indexes}
        assert set(await db[spec.name].index_information()) == {"_id_", *declared} - {missing}
        assert f'{db.name}.{spec.name} index: {missing} dup key: {{ {missing[:-2]}: "twice" }}' in str(refused.value)
        await db[spec.name].delete_one({missing[:-2]: "twice"})
    async for _ in create_indexes(db):
        pass
    assert (await db[PRODUCTS.name].index_information())["sku_1"]["unique"] is True
