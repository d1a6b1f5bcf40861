"""One change stream for all listeners: which events they get, from when on, and how the stream ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from bson import ObjectId
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.errors import OperationFailure

from portico.gateway.ended import EventsLost, Stopping, TooSlow
from portico.gateway.live import Counts, Hub, Listener
from portico.gateway.mongo.driver import MotorChangeStream, connect
from portico.gateway.settings import Settings
from portico.resolvers import changes
from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.comments.comments import CommentRef
from portico.resolvers.comments.events import comments_of
from portico.resolvers.documents import Database, Document
from tests.support.damage import WRONG
from tests.support.domains import SOURCES
from tests.support.harness import Commands
from tests.support.sockets import SECONDS, until

pytestmark = pytest.mark.both_drivers

ONE, OTHER = ObjectId(), ObjectId()


@pytest.fixture
async def watched(settings: Settings, commands: Commands) -> AsyncIterator[Database]:
    """The database, through the driver of the run, with its commands recorded."""
    connection = connect(settings, str(settings.mongodb_uri), [commands])
    yield connection.database
    await connection.close()


@pytest.fixture
async def hub(watched: Database) -> AsyncIterator[Hub]:
    hub = Hub(watched, SOURCES, Counts(), max_waiting=5)
    yield hub
    await hub.aclose()


@pytest.fixture
async def listener(hub: Hub) -> Listener:
    """A listener to the comments of a discussion."""
    return await hub.listen(comments_of(ONE))


async def post(db: Database, discussion: ObjectId = ONE, storage: str = "DOCUMENTS") -> CommentRef:
    """Write a comment in the form that a change stream delivers."""
    ref = CommentRef(storage, discussion, ObjectId())
    if storage == "DOCUMENTS":
        comment = {"_id": ref.id, "discussion": discussion, "key": str(ref.id), "slug": str(ref.id)}
        await db["comments"].insert_one(comment)
    elif storage == "EMBEDDED":
        update = {"$set": {"newest": str(ref)}, "$push": {"comments": {"_id": ref.id}}}
        await db["comment_discussions"].update_one({"_id": discussion}, update, upsert=False)
    else:
        await db["comment_pages"].update_one({"_id": discussion}, {"$set": {"newest": str(ref)}})
    return ref


async def take(listener: Listener, count: int = 1) -> list[Any]:
    """The keys of the next events."""
    async with asyncio.timeout(SECONDS):
        return [(await anext(listener)).key for _ in range(count)]


def streams(commands: Commands) -> int:
    return sum("$changeStream" in command["pipeline"][0] for command in commands.sent if "aggregate" in command)


async def test_a_listener_gets_each_comment_of_its_discussion_in_order(db: Database, hub: Hub) -> None:
    for name in ("comment_discussions", "comment_pages"):
        await db[name].insert_one({"_id": ONE})
    listener = await hub.listen(comments_of(ONE))

    posted = []
    for storage in ("DOCUMENTS", "EMBEDDED", "PAGES", "DOCUMENTS"):
        posted.append(await post(db, storage=storage))
        await post(db, OTHER)

    assert await take(listener, 4) == posted


async def test_only_posts_are_events(db: Database, listener: Listener) -> None:
    newest = str(CommentRef("PAGES", ONE, ObjectId()))
    await db["comment_pages"].insert_one({"_id": ONE, "newest": newest})

    first = await post(db)
    await db["comments"].update_one({"_id": first.id}, {"$set": {"text": "edited"}})
    await db["comment_pages"].update_one({"_id": ONE}, {"$set": {"count": 7}})
    await db["comment_pages"].insert_one({"_id": OTHER, "low": "1", "newest": newest})
    await db["comments"].delete_one({"_id": first.id})
    await db["discussions"].insert_one({"_id": ONE, "key": "a", "discussion": ONE})
    # Documents from another program, in another form.
    await db["comments"].insert_one({"key": 1})
    await db["comment_pages"].update_one({"_id": ONE}, {"$set": {"newest": "nonsense"}})
    second = await post(db)

    assert await take(listener, 2) == [first, second]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
async def test_a_damaged_change_does_not_end_the_stream(db: Database, listener: Listener, wrong: object) -> None:
    await db["comment_pages"].insert_one({"_id": OTHER, "low": "1"})

    await db["comments"].insert_one({"_id": ObjectId(), "discussion": wrong, "key": "1", "slug": "1"})
    await db["comments"].insert_one({"_id": "1", "discussion": ONE, "key": wrong, "slug": "2"})
    await db["comment_pages"].update_one({"_id": OTHER}, {"$set": {"newest": wrong}})
    posted = await post(db)

    seen = await take(listener)
    while seen[-1] != posted:
        seen += await take(listener)
    assert seen[-1] == posted


@pytest.mark.parametrize("round_number", range(3))
async def test_a_comment_after_the_start_of_listening_is_never_missed(
    db: Database, hub: Hub, round_number: int
) -> None:
    for _ in range(4):
        listener = await hub.listen(comments_of(ONE))
        posted = await post(db)

        # A comment from just before the start is for no listener.
        assert await take(listener) == [posted], round_number
        await listener.aclose()


@pytest.fixture
async def rooms(watched: Database) -> AsyncIterator[Hub]:
    """A hub whose only events are changes of rooms. The key of an event is the room."""

    def changed(change: Document) -> list[Event]:
        return [Event("rooms", change["documentKey"]["_id"])]

    source = ChangeSource(frozenset({"rooms"}), {"operationType": "update"}, ("documentKey",), changed)
    hub = Hub(watched, [source], Counts(), max_waiting=20)
    yield hub
    await hub.aclose()


async def change(db: Database, room: str, number: int) -> None:
    await db["rooms"].update_one({"_id": room}, {"$set": {"number": number}})


async def test_each_change_of_the_same_object_is_an_event(db: Database, rooms: Hub) -> None:
    await db["rooms"].insert_many([{"_id": "hall"}, {"_id": "attic"}])
    listener = await rooms.listen("rooms")

    for number, room in enumerate(["hall", "hall", "attic", "hall"]):
        await change(db, room, number)

    assert await take(listener, 4) == ["hall", "hall", "attic", "hall"]


async def test_a_change_that_the_stream_repeats_is_one_event(
    db: Database, rooms: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    await db["rooms"].insert_many([{"_id": "hall"}, {"_id": "attic"}])
    _repeat_each(monkeypatch)
    listener = await rooms.listen("rooms")

    for number, room in enumerate(["hall", "attic", "hall"]):
        await change(db, room, number)
    assert await take(listener, 3) == ["hall", "attic", "hall"]

    await change(db, "attic", 3)
    assert await take(listener) == ["attic"]


def _read_by(monkeypatch: pytest.MonkeyPatch, reading: Callable[[Callable[[], Any]], Any]) -> None:
    """Makes the stream of either driver read by this function, which gets the driver's own."""
    for stream in (AsyncChangeStream, MotorChangeStream):

        async def read(self: Any, read: Any = stream.try_next) -> Any:
            return await reading(lambda: read(self))

        monkeypatch.setattr(stream, "try_next", read)


def _repeat_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the stream deliver each change, then repeat it and the two changes before it."""
    latest: deque[Any] = deque(maxlen=3)
    again: deque[Any] = deque()

    async def repeat(read: Callable[[], Any]) -> Any:
        if again:
            return again.popleft()
        found = await read()
        if found is not None:
            latest.append(found)
            again.extend(latest)
        return found

    _read_by(monkeypatch, repeat)


async def test_a_hundred_listeners_share_one_stream(db: Database, hub: Hub, commands: Commands) -> None:
    listeners = await asyncio.gather(*(hub.listen(comments_of(ONE)) for _ in range(100)))
    posted = [await post(db) for _ in range(3)]

    for taken in await asyncio.gather(*(take(listener, 3) for listener in listeners)):
        assert taken == posted

    assert streams(commands) == 1
    assert (hub.counts.streams, hub.counts.listeners, hub.counts.events, hub.counts.deliveries) == (1, 100, 3, 300)


async def test_the_stream_closes_after_the_last_listener_and_opens_for_the_next(
    db: Database, watched: Database, hub: Hub, commands: Commands
) -> None:
    first, second = await hub.listen(comments_of(ONE)), await hub.listen(comments_of(OTHER))
    await first.aclose()
    await post(db, OTHER)
    await take(second)
    await second.aclose()
    await second.aclose()
    assert hub.counts.listeners == 0
    assert streams(commands) == 1

    await until(lambda: any("killCursors" in command for command in commands.sent) or not _is_pymongo(watched))
    sent = len(commands.sent)
    await asyncio.sleep(0.2)
    assert len(commands.sent) == sent or not _is_pymongo(watched)

    third = await hub.listen(comments_of(ONE))
    posted = await post(db)
    assert await take(third) == [posted]
    assert streams(commands) == 2


def _is_pymongo(db: Database) -> bool:
    """Whether the driver is PyMongo. Motor closes a stream after its current read, up to a second later."""
    return "pymongo" in type(db).__module__


async def test_a_closed_listener_drops_its_waiting_events(db: Database, hub: Hub, listener: Listener) -> None:
    other = await hub.listen(comments_of(ONE))
    await post(db)
    await take(other)

    await listener.aclose()

    with pytest.raises(StopAsyncIteration):
        await anext(listener)


async def test_a_caller_that_is_cancelled_before_the_stream_opens_leaves_no_listener(hub: Hub) -> None:
    one, two = (asyncio.create_task(hub.listen(comments_of(ONE))) for _ in range(2))
    await asyncio.sleep(0)

    one.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await one

    await two
    assert hub.counts.listeners == 1


async def test_a_slow_listener_is_dropped_and_the_others_go_on(db: Database, hub: Hub) -> None:
    slow, quick = await hub.listen(comments_of(ONE)), await hub.listen(comments_of(ONE))

    for _ in range(6):
        posted = await post(db)
        assert await take(quick) == [posted]

    with pytest.raises(TooSlow) as raised:
        await anext(slow)
    assert raised.value.extensions == {"code": "TOO_SLOW"}
    assert len(slow._waiting) == 0
    assert (hub.counts.listeners, dict(hub.counts.ended)) == (1, {"TOO_SLOW": 1})
    assert await take(quick, 0) == []


async def test_every_listener_gets_an_error_if_the_oplog_does_not_reach_back(
    db: Database, hub: Hub, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await post(db)
    await until(lambda: hub.counts.events == 1)
    _fail_once(monkeypatch, OperationFailure("history lost", 286))

    assert await take(listener) == [before]
    with pytest.raises(EventsLost) as raised:
        await take(listener)
    assert raised.value.extensions == {"code": "EVENTS_LOST"}
    assert hub.counts.listeners == 0

    again = await hub.listen(comments_of(ONE))
    posted = await post(db)
    assert await take(again) == [posted]


async def test_a_dropped_database_loses_events(db: Database, listener: Listener) -> None:
    await post(db)
    await take(listener)

    await db.client.drop_database(db.name)

    with pytest.raises(EventsLost):
        await take(listener)


@pytest.mark.parametrize("error", [OperationFailure("killed", 11601), OperationFailure("stepped down", 189)])
async def test_an_interruption_loses_and_repeats_nothing(
    db: Database, hub: Hub, listener: Listener, monkeypatch: pytest.MonkeyPatch, error: OperationFailure
) -> None:
    posted = [await post(db) for _ in range(2)]
    await until(lambda: hub.counts.events == 2)
    _fail_once(monkeypatch, error)
    posted += [await post(db) for _ in range(2)]

    assert await take(listener, 4) == posted
    assert hub.counts.streams == 1
    assert hub.counts.interruptions == 1


async def test_a_killed_cursor_loses_and_repeats_nothing(db: Database, listener: Listener) -> None:
    posted = [await post(db)]
    await take(listener)

    ours = {"$match": {"cursor.originatingCommand.$db": db.name}}
    pipeline = [{"$currentOp": {"idleCursors": True}}, ours]
    killed = 0
    async with asyncio.timeout(SECONDS):
        while not killed:
            answer = await db.client.admin.command("aggregate", 1, pipeline=pipeline, cursor={})
            for found in answer["cursor"]["firstBatch"]:
                await db.command("killCursors", "$cmd.aggregate", cursors=[found["cursor"]["cursorId"]])
                killed += 1
    posted += [await post(db) for _ in range(3)]

    assert await take(listener, 3) == posted[1:]


async def test_a_stream_that_cannot_open_leaves_no_listener(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_sources: Any) -> Any:
        raise OperationFailure("no replica set", 40573)

    with monkeypatch.context() as patched:
        patched.setattr(changes, "pipeline", fail)
        with pytest.raises(OperationFailure, match="no replica set"):
            await hub.listen(comments_of(ONE))

    assert hub.counts.listeners == 0
    await hub.listen(comments_of(ONE))


async def test_a_stopped_hub_ends_its_listeners_and_accepts_no_more(hub: Hub, listener: Listener) -> None:
    await hub.aclose()

    with pytest.raises(Stopping):
        await anext(listener)
    with pytest.raises(Stopping):
        await hub.listen(comments_of(ONE))
    assert hub.counts.listeners == 0


async def test_a_stopping_hub_does_not_wait_for_a_stream_to_open(hub: Hub) -> None:
    opening = asyncio.create_task(hub.listen(comments_of(ONE)))
    await asyncio.sleep(0)

    await hub.aclose()

    with pytest.raises(Stopping):
        await opening
    assert hub.counts.streams == hub.counts.listeners == 0


def _fail_once(monkeypatch: pytest.MonkeyPatch, error: OperationFailure) -> None:
    """Makes the next read of the stream fail."""
    errors = [error]

    async def fail(read: Callable[[], Any]) -> Any:
        if errors:
            raise errors.pop()
        return await read()

    _read_by(monkeypatch, fail)
