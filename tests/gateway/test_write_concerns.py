"""Writes that bypass the driver wait for a majority, or for the primary alone."""

from __future__ import annotations

import pytest
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from portico.gateway.settings import Settings
from tests.gateway.support.direct import opened, plain, warmed_to_write
from tests.support.harness import Commands


async def test_a_write_waits_for_the_primary_alone_only_where_that_is_asked_for(
    settings: Settings, commands: Commands
) -> None:
    async with opened(settings, commands) as db:
        await warmed_to_write(db)
        commands.clear()
        alone = db["written"].with_options(write_concern=WriteConcern(w=1))

        await alone.update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True)
        with pytest.raises(DuplicateKeyError):
            await alone.insert_one({"_id": 1})
        await alone.with_options(read_concern=ReadConcern("majority")).update_one({"_id": 1}, {"$inc": {"n": 1}})
        await db["written"].update_one({"_id": 1}, {"$inc": {"n": 1}})
        sent = list(commands.sent)
        found = await plain(db)["written"].find_one({})
        await plain(db)["written"].drop()

    assert [command["writeConcern"] for command in sent] == [{"w": 1}, {"w": 1}, {"w": 1}, {"w": "majority"}]
    # Only the driver sends the times of the cluster.
    assert not any("$clusterTime" in command for command in sent)
    assert found == {"_id": 1, "n": 3}
