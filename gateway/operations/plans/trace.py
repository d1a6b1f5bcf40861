"""Records the commands that one run sends to MongoDB, their duration, and what they examine. For development."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import orjson
from bson import json_util
from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from portico.resolvers.documents import Database

_READS = {"find", "aggregate", "count", "distinct"}
# Fields that the driver adds to a command.
_OWN = {"lsid", "txnNumber", "$clusterTime", "$db", "$readPreference", "maxTimeMS", "readConcern", "writeConcern"}
# Longer commands, for example with thousands of ids, are cut for display.
_LONGEST = 2_000


@dataclass
class Trace:
    """The commands of one run, in the order in which they were sent."""

    commands: list[dict[str, Any]] = field(default_factory=list)
    in_flight: dict[int, dict[str, Any]] = field(default_factory=dict)


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextlib.contextmanager
def tracing() -> Iterator[Trace]:
    """Collects the commands that the block sends. The client needs a `TraceListener`."""
    trace = Trace()
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


class TraceListener(CommandListener):
    """Adds commands to the trace of the current run. Without a trace, it does nothing."""

    def started(self, event: CommandStartedEvent) -> None:
        trace = _current.get()
        if trace is not None:
            command = {name: value for name, value in event.command.items() if name not in _OWN}
            entry = trace.in_flight[event.request_id] = {"name": event.command_name, "command": command}
            trace.commands.append(entry)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._end(event, "returned", _count(event.reply))

    def failed(self, event: CommandFailedEvent) -> None:
        self._end(event, "failed", value=True)

    def _end(self, event: CommandSucceededEvent | CommandFailedEvent, name: str, value: Any) -> None:
        trace = _current.get()
        entry = None if trace is None else trace.in_flight.pop(event.request_id, None)
        if entry is not None:
            entry["milliseconds"] = round(event.duration_micros / 1000, 3)
            entry[name] = value


def _count(reply: Any) -> int:
    """Returns how many documents the command returned or wrote."""
    cursor = reply.get("cursor")
    if cursor is None:
        return int(reply.get("n", 1))
    return len(cursor.get("firstBatch", cursor.get("nextBatch", ())))


async def explain_commands(trace: Trace, db: Database) -> list[dict[str, Any]]:
    """Returns the commands for display. The server runs each read again to count the documents that it examines."""
    shown = []
    for entry in trace.commands:
        command = entry["command"]
        more = {}
        if entry["name"] in _READS:
            with contextlib.suppress(PyMongoError):
                explained = await db.command("explain", dict(command), verbosity="executionStats")
                more = {
                    "examined": {
                        "documents": _sum(explained, "totalDocsExamined"),
                        "keys": _sum(explained, "totalKeysExamined"),
                    }
                }
        shown.append({**entry, "command": _plain(command), **more})
    return shown


def _sum(explained: Any, name: str) -> int:
    """Returns the sum of this number over all parts of a query plan."""
    if isinstance(explained, list):
        return sum(_sum(part, name) for part in explained)
    if not isinstance(explained, dict):
        return 0
    if isinstance(explained.get(name), int):
        return int(explained[name])
    return sum(_sum(part, name) for key, part in explained.items() if key != "allPlansExecution")


def _plain(command: dict[str, Any]) -> Any:
    text = json_util.dumps(command, json_options=json_util.RELAXED_JSON_OPTIONS)
    return orjson.loads(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
