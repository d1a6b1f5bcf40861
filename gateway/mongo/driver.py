"""Connects to MongoDB with either driver: PyMongo's asynchronous client, or Motor.

All other code uses PyMongo's asynchronous interface. A few methods of Motor return a cursor where PyMongo returns an
awaitable. This module adapts them.
"""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, Self, TypeVar, cast

from pymongo import AsyncMongoClient, ReadPreference, timeout
from pymongo.monitoring import CommandListener
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import read_pref_mode_from_name
from pymongo.write_concern import WriteConcern

from portico.gateway.settings import PREFIX, Settings, SettingsError
from portico.resolvers.documents import CODEC, Database, Document
from portico.resolvers.served import SHARED_COLLECTIONS

from .conditions import patch_driver
from .direct import DirectDatabase, Reader
from .direct_writes import Writer
from .receiving import count_replies
from .restricted import ReadOnlyDatabase, RenamingDatabase

T = TypeVar("T")

SELECTION_TIMEOUT_MS = 5_000
# How long a client that closes waits for the server.
_CLOSE_SECONDS = 1.0
# The writes rely on these options, so the URI cannot change them: a read after a marker must see the markers of others.
_PRIMARY: dict[str, Any] = {
    "codec_options": CODEC,
    "read_preference": ReadPreference.PRIMARY,
    "read_concern": ReadConcern("local"),
    "write_concern": WriteConcern("majority"),
}


class Connection(Protocol):
    """A client with its database. `reading` is the same database with the read preference of the settings.

    `reader` sends direct reads; None if there are none.
    """

    database: Database
    reading: Database
    reader: Reader | None

    async def close(self) -> None: ...


def connect(settings: Settings, uri: str, listeners: Sequence[CommandListener] = ()) -> Connection:
    """Creates the client without connecting yet. Raises SettingsError for an invalid URI or a missing driver.

    The driver warns of an option that it does not know, and ignores it. That is an error, because it can be a misspelt
    option for TLS.
    """
    options: dict[str, Any] = {
        "w": "majority",
        "retryWrites": True,
        "serverSelectionTimeoutMS": SELECTION_TIMEOUT_MS,
        "timeoutMS": settings.database_seconds * 1000,
        "appname": "portico",
        "event_listeners": list(listeners),
    }
    _require_own_database(settings.database)
    _require_prefix(settings.core_prefix or "")
    kind = _MotorConnection if settings.driver == "motor" else _PyMongoConnection
    try:
        with warnings.catch_warnings(action="error", category=UserWarning):
            return _restricted(settings, kind(settings, uri, options))
    except (ValueError, TypeError, UserWarning) as error:
        raise SettingsError(f"PORTICO_MONGODB_URI is not valid: {error}") from None


def _require_own_database(name: str) -> None:
    """Refuses the databases of MongoDB itself: they have no change streams, and `local` is not replicated."""
    if name in {"admin", "config", "local"}:
        raise SettingsError(f"{PREFIX}DATABASE must not be a database of MongoDB itself; got {name!r}.")


def _require_prefix(prefix: str) -> None:
    if not re.fullmatch(r"([A-Za-z_][A-Za-z0-9_.-]{0,50})?", prefix) or prefix.startswith("system."):
        raise SettingsError(
            f"{PREFIX}CORE_PREFIX must have up to 51 letters, digits and characters of `_.-`, begin with a letter or "
            f"`_`, and not with `system.`; got {prefix!r}."
        )


def _restricted(settings: Settings, connection: Connection) -> Connection:
    """Gives the connection the databases that these settings allow."""
    if settings.core_prefix:
        names = {spec.name: settings.core_prefix + spec.name for spec in SHARED_COLLECTIONS}
        connection.database = cast("Database", RenamingDatabase(connection.database, names))
        connection.reading = cast("Database", RenamingDatabase(connection.reading, names))
    if settings.read_only:
        connection.database = cast("Database", ReadOnlyDatabase(connection.database))
        connection.reading = cast("Database", ReadOnlyDatabase(connection.reading))
    return connection


async def require_reachable(database: Database) -> None:
    """Raises a driver's error if MongoDB does not respond soon. Other commands wait longer, until a failover ends."""
    with timeout(SELECTION_TIMEOUT_MS / 1000):
        await database.command("ping")


class _PyMongoConnection:
    def __init__(self, settings: Settings, uri: str, options: dict[str, Any]) -> None:
        patch_driver()
        count_replies()
        self._client: AsyncMongoClient[Document] = AsyncMongoClient(uri, **options)
        plain = self._client.get_database(settings.database, **_PRIMARY)
        preference = _preference(settings)
        self._reader = Reader(self._client, plain.name, settings.database_seconds, options["event_listeners"])
        self._writer = Writer(self._client, plain, settings.database_seconds, options["event_listeners"])
        self.reader = self._reader if settings.direct_reads else None
        self.database: Database = plain
        if settings.direct_reads:
            self.database = cast("Database", DirectDatabase(plain, self._reader, self._writer))
        is_primary = preference == ReadPreference.PRIMARY
        self.reading = self.database if is_primary else plain.with_options(read_preference=preference)

    async def close(self) -> None:
        # The writer gives its sessions back to the client.
        await asyncio.gather(self._reader.close(), self._writer.close())
        # Closed in the middle, the client would leave its connections open. It first ends its sessions on the server,
        # which may not answer.
        with timeout(_CLOSE_SECONDS):
            await self._client.close()


class _MotorConnection:
    reader: Reader | None = None

    def __init__(self, settings: Settings, uri: str, options: dict[str, Any]) -> None:
        try:
            from motor.motor_asyncio import AsyncIOMotorClient  # noqa: PLC0415 - an optional extra
        except ImportError:
            raise SettingsError(
                "PORTICO_DRIVER is motor, which is not installed. Install the extra `portico[motor]`."
            ) from None
        count_replies()
        self._client = AsyncIOMotorClient(uri, **options)
        plain = self._client.get_database(settings.database, **_PRIMARY)
        self.database = cast("Database", MotorDatabase(plain))
        self.reading = cast("Database", MotorDatabase(plain.with_options(read_preference=_preference(settings))))

    async def close(self) -> None:
        self._client.close()


def _preference(settings: Settings) -> Any:
    mode = read_pref_mode_from_name(settings.read_preference)
    return next(p for p in vars(ReadPreference).values() if getattr(p, "mode", None) == mode)


class MotorDatabase:
    """A Motor database with PyMongo's asynchronous interface."""

    def __init__(self, database: Any) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> MotorCollection:
        return MotorCollection(self._database[name])

    def with_options(self, **options: Any) -> MotorDatabase:
        return MotorDatabase(self._database.with_options(**options))

    async def watch(self, *args: Any, **kwargs: Any) -> MotorChangeStream:
        stream = MotorChangeStream()
        await stream.open(self._database.delegate, *args, **kwargs)
        return stream


class MotorCollection:
    """A Motor collection with PyMongo's asynchronous interface."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def with_options(self, **options: Any) -> MotorCollection:
        return MotorCollection(self._collection.with_options(**options))

    async def aggregate(self, *args: Any, **kwargs: Any) -> Any:
        return MotorCursor(self._collection.aggregate(*args, **kwargs))

    def find(self, *args: Any, **kwargs: Any) -> Any:
        return MotorCursor(self._collection.find(*args, **kwargs))

    async def list_indexes(self) -> Any:
        return MotorCursor(self._collection.list_indexes())


class MotorCursor:
    """A Motor cursor whose `to_list` returns all documents."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def __aiter__(self) -> Any:
        return self._cursor.__aiter__()

    def limit(self, count: int) -> MotorCursor:
        self._cursor = self._cursor.limit(count)
        return self

    async def to_list(self) -> list[Document]:
        return cast("list[Document]", await self._cursor.to_list(None))


class MotorChangeStream:
    """A change stream of the synchronous client below Motor, in its own thread.

    Motor's change stream opens with its first read, so a caller would not know from when on it misses no change.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "changes")
        self._stream: Any = None

    async def open(self, database: Any, *args: Any, **kwargs: Any) -> None:
        try:
            self._stream = await self._run(lambda: database.watch(*args, **kwargs))
        except BaseException:
            self._thread.shutdown(wait=False)
            raise

    @property
    def alive(self) -> bool:
        return bool(self._stream.alive)

    @property
    def resume_token(self) -> Mapping[str, Any] | None:
        return cast("Mapping[str, Any] | None", self._stream.resume_token)

    async def try_next(self) -> Document | None:
        return cast("Document | None", await self._run(self._stream.try_next))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        # The stream closes after the read in flight. Nothing waits for either.
        self._thread.submit(self._stream.close)
        self._thread.shutdown(wait=False)

    async def _run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)
