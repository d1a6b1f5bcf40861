"""Reports commands to MongoDB: a span for each command of an operation, and the durations of all commands.

The record of the current task is in a context variable, by which the command listener finds it. The driver and the
direct commands call this listener. A task can outlive the operation that started it, so a record that has ended gets no
more commands.

Source: the semantic conventions of OpenTelemetry for MongoDB, and for database client spans and metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.metrics import Histogram
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from .operation_spans import OperationRecord, current_record

# A command whose task was cancelled has no end. The oldest are forgotten.
_MOST_IN_FLIGHT = 10_000
_WRITES = {"insert", "update", "delete"}


@dataclass(slots=True)
class _Command:
    """A command in flight. `span` is None if it is not traced."""

    collection: str
    record: OperationRecord | None
    span: Span | None


class CommandRecorder(CommandListener):
    """Records commands on collections. The driver and the direct commands call it in the task of the operation.

    With Motor, other threads call it.
    """

    def __init__(self, tracer: Tracer, durations: Histogram) -> None:
        self._tracer = tracer
        self._durations = durations
        self._in_flight: dict[int, _Command] = {}

    def started(self, event: CommandStartedEvent) -> None:
        collection = _collection_of(event)
        if collection is None:
            return
        record = current_record()
        span = None
        if record is not None and record.take_span():
            span = self._start_span(event, collection)
        if len(self._in_flight) >= _MOST_IN_FLIGHT:
            self._in_flight.pop(next(iter(self._in_flight)), None)
        self._in_flight[event.request_id] = _Command(collection, record, span)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        command = self._in_flight.pop(event.request_id, None)
        if command is None:
            return
        self._durations.record(event.duration_micros / 1e6, _attributes(event.command_name, command.collection))
        rows, documents = _counts(event.command_name, event.reply)
        if command.record is not None:
            command.record.documents.append(documents)
        if command.span is not None:
            if rows is not None:
                command.span.set_attribute("db.response.returned_rows", rows)
            command.span.end()

    def failed(self, event: CommandFailedEvent) -> None:
        command = self._in_flight.pop(event.request_id, None)
        if command is None:
            return
        code, kind = _error_of(event.failure)
        attributes = _attributes(event.command_name, command.collection)
        self._durations.record(event.duration_micros / 1e6, {**attributes, "error.type": kind})
        if command.record is not None:
            command.record.documents.append(0)
        if command.span is not None:
            command.span.set_attribute("error.type", kind)
            if code is not None:
                command.span.set_attribute("db.response.status_code", code)
            command.span.set_status(Status(StatusCode.ERROR))
            command.span.end()

    def _start_span(self, event: CommandStartedEvent, collection: str) -> Span:
        address = event.connection_id
        return self._tracer.start_span(
            f"{event.command_name} {collection}",
            kind=SpanKind.CLIENT,
            attributes={
                **_attributes(event.command_name, collection),
                "db.namespace": event.database_name,
                "server.address": str(address[0]),
                **({} if address[1] is None else {"server.port": address[1]}),
            },
        )


def _collection_of(event: CommandStartedEvent) -> str | None:
    """Returns the collection of a command; None for a command on the database, such as a change stream."""
    name = event.command_name
    found = event.command.get("collection" if name == "getMore" else name)
    return found if isinstance(found, str) and not found.startswith("$") else None


def _attributes(command: str, collection: str) -> dict[str, str]:
    return {"db.system.name": "mongodb", "db.operation.name": command, "db.collection.name": collection}


def _counts(command: str, reply: Mapping[str, Any]) -> tuple[int | None, int]:
    """Returns the rows that a reply has, None if it has none, and the documents that were returned or written."""
    cursor = reply.get("cursor")
    if cursor is not None:
        rows = len(cursor.get("firstBatch", cursor.get("nextBatch", ())))
        return rows, rows
    if command == "findAndModify":
        return None, int(reply.get("lastErrorObject", {}).get("n", 0))
    return None, int(reply.get("n", 0)) if command in _WRITES else 0


def _error_of(failure: Mapping[str, Any]) -> tuple[str | None, str]:
    """Returns the error code of MongoDB, and the error class: that code, or the exception of the driver."""
    code = failure.get("code")
    if code is not None:
        return str(code), str(code)
    return None, str(failure.get("errtype") or "network")
