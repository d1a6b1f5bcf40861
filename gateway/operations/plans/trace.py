"""What one run has sent to MongoDB: each command, how long it took, and what it examined. For development."""

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
# What the driver adds to a command for its own ends.
_OWN = {"lsid", "txnNumber", "$clusterTime", "$db", "$readPreference", "maxTimeMS", "readConcern", "writeConcern"}
# A command with thousands of ids is cut for the eye.
_LONGEST = 2_000


@dataclass
class Trace:
    """The commands of one run, in the order in which they were sent."""

    commands: list[dict[str, Any]] = field(default_factory=list)
    under_way: dict[int, dict[str, Any]] = field(default_factory=dict)


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextlib.contextmanager
def tracing() -> Iterator[Trace]:
    """Collects what is sent inside of it; needs a `TraceListener` at the client."""
    trace = Trace()
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


class TraceListener(CommandListener):
    """Tells the run that is being traced of its commands; others cost a look."""

    def started(self, event: CommandStartedEvent) -> None:
        trace = _current.get()
        if trace is not None:
            command = {name: value for name, value in event.command.items() if name not in _OWN}
            entry = trace.under_way[event.request_id] = {"name": event.command_name, "command": command}
            trace.commands.append(entry)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._end(event, "returned", _count(event.reply))

    def failed(self, event: CommandFailedEvent) -> None:
        self._end(event, "failed", value=True)

    def _end(self, event: CommandSucceededEvent | CommandFailedEvent, name: str, value: Any) -> None:
        trace = _current.get()
        entry = None if trace is None else trace.under_way.pop(event.request_id, None)
        if entry is not None:
            entry["milliseconds"] = round(event.duration_micros / 1000, 3)
            entry[name] = value


def _count(reply: Any) -> int:
    """Documents that came back, or were written."""
    cursor = reply.get("cursor")
    if cursor is None:
        return int(reply.get("n", 1))
    return len(cursor.get("firstBatch", cursor.get("nextBatch", ())))


async def examined(trace: Trace, db: Database) -> list[dict[str, Any]]:
    """Returns the commands as they are shown. Reads are run once more, for the server to say what they examine."""
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
    """Returns what all parts of a plan, and of the plans in it, examined together."""
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
