"""A primary stalls, another one is elected, and the first resumes. A read sees every write acknowledged before it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandListener
from pymongo.write_concern import WriteConcern

from portico.gateway.live_queries import LiveCounts, LiveQueries
from portico.gateway.mongo import links
from portico.gateway.mongo.driver import connect
from portico.gateway.operations.responses import Response
from portico.gateway.reads.deriving import of_find
from portico.gateway.reads.feed import Feed
from portico.gateway.reads.read_sets import ReadSet
from portico.gateway.reads.recorded import recorded
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database
from portico.schema.context import Caller
from tests.gateway.support.direct import opened, plain, reader_of
from tests.gateway.support.fixtures import nodes_with
from tests.support.harness import IS_SOAK, GatewayClient, create_category, running
from tests.support.replica_sets import ReplicaSet

# How many reads run at once. Each has a connection.
READERS = 8
# The timeout for steps that take no time.
SOON = 5.0
# How long the primary stalls after the election. The driver's monitor times out after 30 seconds.
STALLS = [27.0, 70.0] if IS_SOAK else [1.0]

NAME = "query ($slug: String!) { category(slug: $slug) { name } }"
three = nodes_with()


@pytest.fixture
def on_three(settings: Settings, three: ReplicaSet) -> Settings:
    return replace(settings, mongodb_uri=Secret(three.uri))


@pytest.fixture
async def db(on_three: Settings) -> AsyncIterator[Database]:
    """A database with a connection for each read."""
    async with opened(on_three) as found:
        await connected(found)
        yield found


async def connected(db: Database, count: int = READERS) -> None:
    """Return when so many connections are open."""
    for _ in range(500):
        if reader_of(db).connections >= count:
            return
        await asyncio.gather(*(db["rows"].find_one({"_id": 0}) for _ in range(count)))
    raise AssertionError("too few direct connections")


@contextlib.asynccontextmanager
async def stalled(three: ReplicaSet) -> AsyncIterator[int]:
    """Yield the port of a stalled primary. It resumes at the end of the block at the latest."""
    port = await asyncio.to_thread(three.stall_primary)
    try:
        yield port
    finally:
        three.resume(port)
        await asyncio.to_thread(three.wait_until_secondary, port)


async def known(db: Database, port: int) -> None:
    """Return when the driver knows the primary at this port."""
    async with asyncio.timeout(SOON):
        while await db.client.primary != ("127.0.0.1", port):  # noqa: ASYNC110 - the driver signals nothing
            await asyncio.sleep(0.01)


def written(db: Database) -> Any:
    """The same database through the driver. Writes need no majority: the third node may still sync from the first."""
    return plain(db).with_options(write_concern=WriteConcern(1))


async def values(db: Database, count: int = READERS) -> list[int]:
    """The value of one row, from so many concurrent reads."""
    rows = await asyncio.gather(*(db["rows"].find_one({"_id": 0}) for _ in range(count)))
    return [row["parity"] for row in rows if row is not None]


async def test_a_caller_sees_what_was_written_while_a_former_primary_stalls(
    on_three: Settings, three: ReplicaSet
) -> None:
    async with running(on_three) as gateway:
        category = await create_category(gateway, name="before")
        await asyncio.gather(*(name_of(gateway, category) for _ in range(100)))

        async with stalled(three) as former:
            await known(gateway.db, await asyncio.to_thread(three.wait_for_new_primary, former))
            await written(gateway.db)["categories"].update_one({"slug": category["slug"]}, {"$set": {"name": "after"}})
            async with asyncio.timeout(SOON):
                names = await asyncio.gather(*(name_of(gateway, category) for _ in range(100)))
            assert names == ["after"] * 100

            three.resume(former)
            assert {await name_of(gateway, category) for _ in range(100)} == {"after"}


LIVE = "query ($slug: String!) @live { category(slug: $slug) { name } }"


async def test_a_live_query_shows_what_is_written_while_a_former_primary_stalls(
    on_three: Settings, three: ReplicaSet
) -> None:
    async with running(on_three) as gateway:
        category = await create_category(gateway, name="before")
        async with gateway.subscription(LIVE, {"slug": category["slug"]}) as answers:
            assert (await anext(answers))["category"]["name"] == "before"
            async with stalled(three) as former:
                await known(gateway.db, await asyncio.to_thread(three.wait_for_new_primary, former))
                await written(gateway.db)["categories"].update_one(
                    {"slug": category["slug"]}, {"$set": {"name": "after"}}
                )
                async with asyncio.timeout(SOON):
                    assert (await anext(answers))["category"]["name"] == "after"


class StallsDuringARead(CommandListener):
    """Stalls the primary when a certain read is sent the first time: one whose command has this value."""

    def __init__(self, three: ReplicaSet, name: str, value: object) -> None:
        self.former: int | None = None
        self._three = three
        self._name, self._value = name, value

    def started(self, event: Any) -> None:
        if event.command.get(self._name) == self._value and self.former is None:
            self.former = self._three.stall_primary()

    def succeeded(self, event: Any) -> None: ...

    def failed(self, event: Any) -> None: ...

    @contextlib.asynccontextmanager
    async def connected(self, settings: Settings) -> AsyncIterator[Database]:
        """A database whose commands it listens to. At the end, the rows are dropped."""
        connection = connect(settings, str(settings.mongodb_uri), [self])
        try:
            yield connection.database
        finally:
            await connection.database["rows"].drop()
            await connection.close()

    @contextlib.asynccontextmanager
    async def resuming(self) -> AsyncIterator[None]:
        """Lets the primary resume at the end."""
        try:
            yield
        finally:
            if self.former is not None:
                self._three.resume(self.former)
                await asyncio.to_thread(self._three.wait_until_secondary, self.former)


async def test_changes_are_followed_while_a_former_primary_stalls_during_the_read_of_a_changed_document(
    on_three: Settings, three: ReplicaSet
) -> None:
    listener = StallsDuringARead(three, "singleBatch", True)
    async with listener.connected(on_three) as db:
        await db["rows"].insert_one({"_id": "changed", "parity": 0})
        async with contextlib.aclosing(Feed(db, ["rows"])) as feed, listener.resuming():
            await feed.open()
            before = reading(feed)
            await db["rows"].update_one({"_id": "changed"}, {"$set": {"parity": 1}})
            async with asyncio.timeout(SOON):
                await before.wait()
            assert listener.former is not None
            after = reading(feed)
            # The feed may notice that the primary stalls before the others have elected another one.
            await known(db, await asyncio.to_thread(three.wait_for_new_primary, listener.former))
            # Is on a majority when the third node has noticed that the first one stalls.
            await db["rows"].insert_one({"_id": "new", "parity": 9})
            async with asyncio.timeout(SOON):
                await after.wait()


async def test_a_live_query_runs_again_while_a_former_primary_stalls_during_its_read(
    on_three: Settings, three: ReplicaSet
) -> None:
    listener = StallsDuringARead(three, "aggregate", "rows")
    async with listener.connected(on_three) as db:
        await db["rows"].insert_one({"_id": "counted", "parity": 0})

        async def count(_caller: Caller | None, reads: ReadSet) -> Response:
            # The driver notices after 30 seconds that a primary stalls.
            rows = recorded(plain(db), reads)["rows"]
            return Response({"data": {"rows": await rows.count_documents({"parity": 0})}})

        async with (
            contextlib.aclosing(LiveQueries(Feed(db, ["rows"]), LiveCounts(), most=1, pause=0.0)) as queries,
            contextlib.aclosing(await queries.listen("rows", None, count)) as answers,
            listener.resuming(),
        ):
            async with asyncio.timeout(SOON):
                answer = await anext(answers)
            assert json.loads(answer.json) == {"data": {"rows": 1}}
            assert listener.former is not None


def reading(feed: Feed) -> asyncio.Event:
    """Reads rows, of which there is none yet. Returns an event that is set when a change affects that."""
    affected = asyncio.Event()
    reads = ReadSet(feed.index, affected.set)
    reads.end(reads.begin(of_find("rows", {"parity": 9}, None, {})), [])
    return affected


async def name_of(gateway: GatewayClient, category: dict[str, Any]) -> str:
    found: str = (await gateway.data(NAME, {"slug": category["slug"]}))["category"]["name"]
    return found


async def test_reads_that_wait_on_a_stalled_primary_move_to_the_next_one_at_once(
    db: Database, three: ReplicaSet
) -> None:
    async with stalled(three) as former:
        waiting = asyncio.ensure_future(values(db))
        await known(db, await asyncio.to_thread(three.wait_for_new_primary, former))

        async with asyncio.timeout(SOON):
            assert await waiting == [0] * READERS
            # The next reads have connections again.
            await connected(db)


async def test_an_answer_that_a_former_primary_gives_after_the_election_does_not_count(
    db: Database, three: ReplicaSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the watch, the reads wait until the former primary answers.
    monkeypatch.setattr(links, "WATCH_SECONDS", 600)
    async with stalled(three) as former:
        waiting = asyncio.ensure_future(values(db))
        await known(db, await asyncio.to_thread(three.wait_for_new_primary, former))
        await written(db)["rows"].update_one({"_id": 0}, {"$set": {"parity": 7}})
        assert not waiting.done()

        three.resume(former)

        async with asyncio.timeout(SOON):
            assert await waiting == [7] * READERS


async def test_connections_that_stall_while_they_open_do_not_count_after_the_election(
    db: Database, three: ReplicaSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "CONNECTIONS", READERS + 1)
    async with stalled(three) as former:
        # The read without a connection opens one, and that stalls.
        waiting = asyncio.ensure_future(values(db, READERS + 1))
        await known(db, await asyncio.to_thread(three.wait_for_new_primary, former))

        async with asyncio.timeout(SOON):
            await connected(db, READERS + 1)
    assert len(await waiting) == READERS + 1


@pytest.mark.timeout(300 if IS_SOAK else 60)
@pytest.mark.parametrize("seconds", STALLS)
async def test_a_read_never_finds_less_than_was_written_before_it_began(
    db: Database, three: ReplicaSet, seconds: float
) -> None:
    newest = 0
    is_over = asyncio.Event()
    # Reads that began before the election would occupy all connections to the former primary.
    may_read = asyncio.Event()
    reads = 0

    async def write() -> None:
        nonlocal newest
        number = 1
        while not is_over.is_set():
            # A write that hangs is retried on the new primary. `$max` ignores one that arrives late.
            with contextlib.suppress(PyMongoError, TimeoutError):
                async with asyncio.timeout(1):
                    await written(db)["rows"].update_one({"_id": 0}, {"$max": {"parity": number}})
                newest, number = number, number + 1

    async def read() -> None:
        nonlocal reads
        while not is_over.is_set():
            await may_read.wait()
            before = newest
            async with asyncio.timeout(2 * SOON):
                row = await db["rows"].find_one({"_id": 0})
            assert row is not None
            assert row["parity"] >= before
            reads += 1

    async def stall() -> None:
        async with stalled(three) as former:
            await known(db, await asyncio.to_thread(three.wait_for_new_primary, former))
            before = newest
            while newest == before:  # noqa: ASYNC110 - the writer signals nothing
                await asyncio.sleep(0.01)
            may_read.set()
            await asyncio.sleep(seconds)
        await asyncio.sleep(1)
        is_over.set()

    async with asyncio.TaskGroup() as group:
        for task in (write(), stall(), *(read() for _ in range(READERS))):
            group.create_task(task)

    assert newest
    assert reads
