"""The connections of direct reads and writes: taken over from the driver, and bound to one primary of one election.

A primary that stalls does not notice that another one is elected. When it resumes, it answers for a moment from the
state before the election. So a link belongs to one primary of one election, and `Links` compares that with the driver's
topology, which never accepts an election earlier than the latest it has seen:

1. Before a read, `take` closes the links to a former primary and returns only links to the current one.
2. After the answer, `is_current` says whether the primary is still the same. If not, the answer does not count.
3. While a read waits, `_watch` compares every 50 ms. When the primary changes, all waiting reads fail with `Lost`.

The write that a caller got an acknowledgement for went to a primary that the topology knew. So a read that begins after
the acknowledgement goes to that primary or a later one, and its answer includes the write. This holds for a replica
set. A mongos names no election; it finds the primary of each shard itself.

The topology is an immutable object, so the comparison is by identity; its servers are searched only when it has been
replaced. The driver's topology listeners are not used: the driver delivers their events up to a second late.

When all links are busy, reads wait in the order in which they came. They would starve at the driver's pool: the driver
needs many iterations of the event loop for a command, and a link needs one. A link that is given back goes to the read
that has waited longest. Reads wait only while a link is busy, so each of them gets a link, times out, or falls back to
the driver because the last link is lost or the primary has changed.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple, Protocol

import structlog
from bson import ObjectId
from pymongo import AsyncMongoClient
from pymongo.errors import NetworkTimeout, PyMongoError
from pymongo.topology_description import TopologyDescription

from portico.resolvers.documents import Document
from portico.resolvers.tasks import end

# The most per process. When all are busy, reads wait.
CONNECTIONS = 16
IDLE_SECONDS = 60.0
# How long a read may wait for a former primary, and the precision of read timeouts.
WATCH_SECONDS = 0.05
PAUSE_SECONDS = 1.0
# The pause between two entries in the log of connections that cannot be opened.
QUIET_SECONDS = 10.0
_SIZE = struct.Struct("<i")
_HAS_PRIMARY = {"RSPrimary", "Mongos", "Standalone"}

_log = structlog.get_logger("portico.direct")
Admits = Callable[[int], bool]


class Lost(Exception):
    """The connection closed before the reply arrived."""


class TooLong(Exception):
    """The operation may not receive a reply of this size now. The connection is closed."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Primary(NamedTuple):
    """The server to read from, and the election that made it primary. Only a replica set has elections."""

    address: tuple[str, int | None]
    election: ObjectId | None


def primary_of(topology: TopologyDescription) -> Primary | None:
    for address, server in topology.server_descriptions().items():
        if server.server_type_name in _HAS_PRIMARY:
            return Primary(address, server.election_id)
    return None


class Reply(Protocol):
    """What waits for a reply: a future, or something cheaper."""

    def done(self) -> bool: ...

    def set_result(self, reply: bytes, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class Link(asyncio.Protocol):
    """A connection taken over from the driver. It carries one command at a time."""

    def __init__(self, connection: Any, primary: Primary) -> None:
        # Referenced, because the driver's object closes its socket when it is collected.
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = connection.conn.get_conn.transport
        self._part = bytearray()
        self._reply: Reply | None = None
        self._admits: Admits | None = None
        # A monotonic time, like `used_at`.
        self._deadline = 0.0
        self.primary = primary
        self.opened_at = self.used_at = monotonic()
        self._transport.set_protocol(self)
        self._transport.resume_reading()

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    async def ask(self, message: bytes, deadline: float, admits: Admits | None = None) -> bytes:
        """Sends a message and returns the reply. Raises Lost, NetworkTimeout and TooLong, and closes the connection.

        Args:     deadline: a monotonic time.  admits: returns whether a reply of this size may be received.
        """
        if self._transport.is_closing():
            # `connection_lost` may have been called already, so nothing else would end the wait.
            raise Lost
        reply: asyncio.Future[bytes] = self._loop.create_future()
        self.send(message, deadline, reply, admits)
        try:
            return await reply
        except BaseException:
            # The next command must not get a late reply to this one.
            self.close()
            raise
        finally:
            self._reply = None
            # An error of the future references this frame, which would reference the future.
            del reply

    def send(self, message: bytes, deadline: float, reply: Reply, admits: Admits | None = None) -> None:
        """Sends a message on an open link. `reply` gets the reply, and closes the link if it gets an error instead."""
        self._reply = reply
        self._deadline = deadline
        self._admits = admits
        self.used_at = monotonic()
        self._transport.write(message)

    def close(self) -> None:
        """Closes the connection. A read that waits for its reply fails with Lost."""
        self._transport.abort()
        self._fail(Lost())

    def expire(self, now: float) -> None:
        """Fails a read with NetworkTimeout if it has waited too long."""
        if now >= self._deadline:
            self._fail(NetworkTimeout("The server did not reply in time."))

    def data_received(self, data: bytes) -> None:
        if self._part or len(data) < _SIZE.size or _SIZE.unpack_from(data)[0] != len(data):
            self._part += data
            if len(self._part) < _SIZE.size:
                return
            size = _SIZE.unpack_from(self._part)[0]
            if not self._is_admitted(size) or size > len(self._part):
                return
            data, self._part = bytes(self._part), bytearray()
        elif not self._is_admitted(len(data)):
            return
        reply, self._reply = self._reply, None
        if reply is None or reply.done():
            self.close()
        else:
            reply.set_result(data)

    def _is_admitted(self, size: int) -> bool:
        """Returns whether a reply of this size may be received. Otherwise, closes the connection. Asks once a reply."""
        admits, self._admits = self._admits, None
        if admits is None or admits(size):
            return True
        self._part = bytearray()
        self._transport.abort()
        self._fail(TooLong(size))
        return False

    def connection_lost(self, _: Exception | None) -> None:
        self._fail(Lost())

    def _fail(self, error: Exception) -> None:
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            reply.set_exception(error)


class _Waiting(NamedTuple):
    """A read that waits for a link. None as the link: the read must fall back to the driver."""

    link: asyncio.Future[Link | None]
    deadline: float


class Links:
    """Up to CONNECTIONS links to the primary, opened on demand, and the reads that wait for one."""

    def __init__(self, client: AsyncMongoClient[Document]) -> None:
        self._client = client
        self._topology: TopologyDescription | None = None
        self._primary: Primary | None = None
        self._idle: list[Link] = []
        self._busy: set[Link] = set()
        self._opening: set[asyncio.Task[None]] = set()
        # First come, first served. There are none unless a link is busy.
        self._waiting: deque[_Waiting] = deque()
        # The links to the current primary: idle, busy, or being opened.
        self._count = 0
        self._not_before = self._quiet_until = 0.0
        self._is_usable = True
        self._watching: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """How many links are open."""
        return len(self._idle) + len(self._busy)

    async def take(self, deadline: float) -> Link | None:
        """Returns a link for one command; call `give_back` afterwards. Waits while all links are busy.

        Returns None if no link is open, and opens one for later commands. The command then falls back to the driver.

        Args:     deadline: a monotonic time.
        Raises:   NetworkTimeout if no link is free by the deadline.
        """
        link = self.idle()
        if link is not None:
            return link
        self.open_another()
        if not self._busy:
            return None
        waiting = _Waiting(asyncio.get_running_loop().create_future(), deadline)
        self._waiting.append(waiting)
        try:
            return await waiting.link
        except asyncio.CancelledError:
            # The read may have got a link in the same iteration of the event loop.
            if not waiting.link.cancelled() and waiting.link.exception() is None:
                link = waiting.link.result()
                if link is not None:
                    self.give_back(link)
            raise

    def is_current(self, link: Link) -> bool:
        """Returns whether the link's server is still the primary of the same election."""
        return self._current() is link.primary

    def give_back(self, link: Link) -> None:
        if link.primary is not self._primary or not self._is_usable:
            self._busy.discard(link)
            link.close()
        elif not link.is_open:
            self._busy.discard(link)
            self._count -= 1
            if self._waiting:
                self.open_another()
        elif not self._waiting or not self._hand_over(link):
            self._busy.discard(link)
            self._idle.append(link)
        if self._waiting and not self._busy:
            self._fall_back()

    async def close(self) -> None:
        self._is_usable = False
        if self._opening:
            # A driver that is cancelled while it connects leaves its socket open.
            _, late = await asyncio.wait(self._opening, timeout=PAUSE_SECONDS)
            await end(*late)
        # A ping has no task that would be cancelled, and close its link.
        for link in (*self._idle, *self._busy):
            link.close()
        self._fall_back()

    def idle(self, *, oldest: bool = False) -> Link | None:
        """Returns an idle link like `take`; None if there is none at the moment.

        Args:     oldest: whether to prefer the one that was opened first.
        """
        self._current()
        if oldest:
            self._idle.sort(key=lambda link: -link.opened_at)
        now = monotonic()
        while self._idle:
            link = self._idle.pop()
            if link.is_open and now - link.used_at < IDLE_SECONDS:
                self._busy.add(link)
                if self._watching is None:
                    self._watching = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._watch)
                return link
            self._count -= 1
            link.close()
        return None

    def _hand_over(self, link: Link) -> bool:
        """Gives a link to the read that has waited longest. Returns whether there is one."""
        while self._waiting:
            waiting = self._waiting.popleft().link
            # A read that was cancelled is still in the queue.
            if not waiting.done():
                waiting.set_result(link)
                return True
        return False

    def _fall_back(self) -> None:
        """Sends the reads that wait by the driver."""
        while self._waiting:
            waiting = self._waiting.popleft().link
            if not waiting.done():
                waiting.set_result(None)

    def _current(self) -> Primary | None:
        """Returns the primary in the driver's current topology. Every read calls this twice."""
        topology = self._client.topology_description
        if topology is not self._topology:
            self._topology = topology
            found = primary_of(topology)
            if found != self._primary:
                self._move(found)
        return self._primary

    def _move(self, primary: Primary | None) -> None:
        """Closes all links, and fails the reads that wait. The next links go to this primary."""
        self._primary = primary
        self._count = 0
        self._not_before = 0.0
        for link in (*self._idle, *self._busy):
            link.close()
        self._idle.clear()
        self._busy.clear()
        self._fall_back()

    def _watch(self) -> None:
        """Fails reads that wait for a former primary or too long. Runs every WATCH_SECONDS while a read waits."""
        self._watching = None
        self._current()
        now = monotonic()
        for link in self._busy:
            link.expire(now)
        for waiting in self._waiting:
            if now >= waiting.deadline and not waiting.link.done():
                waiting.link.set_exception(NetworkTimeout("All connections for reads were in use for too long."))
        if self._busy:
            self._watching = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._watch)

    def open_another(self) -> None:
        """Opens a link to the current primary if there may be one more."""
        is_due = monotonic() >= self._not_before
        if self._primary is not None and self._is_usable and self._count < CONNECTIONS and is_due:
            self._count += 1
            task = asyncio.create_task(self._open(self._primary))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, primary: Primary) -> None:
        link = None
        try:
            link = await self._connected(primary)
        except (PyMongoError, OSError) as error:
            # Those that are opened together fail together.
            if monotonic() >= self._quiet_until:
                self._quiet_until = monotonic() + QUIET_SECONDS
                _log.info("cannot open a direct connection", error=str(error))
        except (AttributeError, TypeError) as error:
            if self._is_usable:
                _log.warning("direct reads and writes disabled: unsupported PyMongo version", error=str(error))
            self._is_usable = False
        finally:
            if primary is not self._primary:
                # `_count` does not include links to a former primary.
                if link is not None:
                    link.close()
            elif link is not None:
                self._busy.add(link)
                self.give_back(link)
            else:
                self._count -= 1
                self._not_before = monotonic() + PAUSE_SECONDS

    async def _connected(self, primary: Primary) -> Link | None:
        """Opens a link. Only this function and `Link` use the driver's internals."""
        inner: Any = self._client
        server = inner._topology.get_server_by_address(primary.address)  # noqa: SLF001 - see above
        if server is None:
            return None
        connection = await server.pool.connect()
        try:
            return Link(connection, primary)
        except BaseException:
            await connection.close_conn(None)
            raise
