"""Reports operations: a span for each, spans for its resolvers that wait, and metrics by operation and client.

Source: the semantic conventions of OpenTelemetry for GraphQL server spans; for metrics and resolvers, their draft.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Generator, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from graphql import DocumentNode, OperationDefinitionNode
from opentelemetry import context as contexts
from opentelemetry.metrics import Counter, Histogram
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from portico.gateway.caller_rates import RateLimited
from portico.gateway.operations.admission import Overloaded
from portico.gateway.operations.execution import MutationNotAllowed
from portico.gateway.operations.responses import Response
from portico.schema.context import Context, derived

from .names import LONGEST, Names
from .recording import Record

T = TypeVar("T")

# The most spans of one operation, besides its own. Metrics count everything.
MAX_SPANS = 200
_UNNAMED = "GraphQL Operation"
_EVENT = "GraphQL Subscription Event"
# Codes of failures that have no response. Any other one is a fault.
_CODES: dict[type[BaseException], str] = {
    Overloaded: "OVERLOADED",
    RateLimited: "RATE_LIMITED",
    MutationNotAllowed: "METHOD_NOT_ALLOWED",
    asyncio.CancelledError: "CANCELLED",
}

# The record of the operation that the current task works for. It may have ended.
_current: ContextVar[OperationRecord | None] = ContextVar("record", default=None)


def current_record() -> OperationRecord | None:
    """Returns the record of the operation that the current task works for; None if there is none, or it has ended."""
    record = _current.get()
    return record if record is not None and record.is_open else None


@dataclass(frozen=True, slots=True)
class Instruments:
    """What the records of a gateway write to. Each process has its own bounds of names."""

    tracer: Tracer
    requests: Histogram
    events: Histogram
    errors: Counter
    commands: Counter
    documents: Counter
    operation_names: Names
    client_names: Names


class OperationRecord(Record):
    """One operation, or one event of a subscription."""

    def __init__(
        self, instruments: Instruments, client: str | None, parent: contexts.Context | None, links: Sequence[Link] = ()
    ) -> None:
        """`parent` is the trace of the caller. An event is linked to its subscription instead."""
        self.is_open = False
        self.client = client
        self.kind: str | None = None
        self.name: str | None = None
        # The documents that each command has returned or written. Threads can append.
        self.documents: list[int] = []
        self._instruments = instruments
        self._is_event = bool(links)
        self._codes: set[str] = set()
        self._spans_left = 0
        self._begun = time.perf_counter()
        self.span: Span = instruments.tracer.start_span(
            _EVENT if self._is_event else _UNNAMED,
            context=parent or contexts.Context(),
            kind=SpanKind.SERVER,
            links=links,
        )
        self._tokens: tuple[Token[Any], Token[Any]] | None = None

    def recording(self, context: Context) -> Context:
        return derived(context, record=self)

    def __enter__(self) -> Self:
        self.is_open = True
        self._spans_left = MAX_SPANS if self.span.is_recording() else 0
        self._tokens = contexts.attach(set_span_in_context(self.span)), _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._tokens is not None
        contexts.detach(self._tokens[0])
        _current.reset(self._tokens[1])
        self.is_open = False
        if error is not None:
            self._codes = {_CODES.get(type(error), "INTERNAL")}
        self._end_span()
        self._count()

    def identify(self, definition: OperationDefinitionNode, document: DocumentNode) -> None:
        self.kind = definition.operation.value
        self.name = None if definition.name is None else definition.name.value
        if not self.span.is_recording():
            return
        if not self._is_event:
            self.span.update_name(self.kind)
        assert document.loc is not None
        digest = hashlib.sha256(document.loc.source.body.encode("utf-8", "surrogatepass")).hexdigest()
        self.span.set_attribute("graphql.document.hash", f"sha256:{digest}")

    def answered(self, response: Response) -> None:
        self._codes = response.codes

    def resolving(self, awaited: Awaitable[T], type_name: str, field_name: str) -> Awaitable[T]:
        coordinate = f"{type_name}.{field_name}"
        attributes = {"graphql.processing.type": "resolve", "graphql.field.schema_coordinate": coordinate}
        return self._traced(awaited, coordinate, attributes)

    def batch(self, awaited: Awaitable[T], fields: Sequence[str], size: int) -> Awaitable[T]:
        attributes = {
            "graphql.processing.type": "dataloader_batch",
            "graphql.dataloader.name": ", ".join(fields),
            "graphql.dataloader.batch.size": size,
        }
        return self._traced(awaited, f"GraphQL DataLoader Batch {fields[0]}", attributes)

    def take_span(self) -> bool:
        """Returns whether the operation may have one more span."""
        self._spans_left -= 1
        return self._spans_left >= 0

    def _traced(self, awaited: Awaitable[T], name: str, attributes: dict[str, Any]) -> Awaitable[T]:
        return _Traced(awaited, self._instruments.tracer, name, attributes) if self.take_span() else awaited

    def _end_span(self) -> None:
        if not self.span.is_recording():
            return
        attributes = {
            "graphql.processing.type": "subscription_event" if self._is_event else "request",
            "graphql.operation.type": self.kind,
            "graphql.operation.name": self.name and self.name[:LONGEST],
            "graphql.client.name": self.client and self.client[:LONGEST],
            "portico.commands": len(self.documents),
            "portico.documents": sum(self.documents),
        }
        self.span.set_attributes({name: value for name, value in attributes.items() if value is not None})
        if self._codes:
            codes = sorted(self._codes)
            self.span.set_attributes({"error.type": codes[0], "portico.error_codes": codes})
            self.span.set_status(Status(StatusCode.ERROR, ", ".join(codes)))
        self.span.end()

    def _count(self) -> None:
        it = self._instruments
        about: dict[str, str] = {}
        if self.kind is not None:
            about["graphql.operation.type"] = self.kind
        if self.name is not None:
            about["graphql.operation.name"] = it.operation_names.bounded(self.name)
        if self.client is not None:
            about["graphql.client.name"] = it.client_names.bounded(self.client)
        failed = {**about, "error.type": min(self._codes)} if self._codes else about
        (it.events if self._is_event else it.requests).record(time.perf_counter() - self._begun, failed)
        for code in self._codes:
            it.errors.add(1, {**about, "error.type": code})
        if self.documents:
            it.commands.add(len(self.documents), about)
            it.documents.add(sum(self.documents), about)


class _Traced(Generic[T]):
    """An awaitable with a span. Commands that it sends are spans below it."""

    def __init__(self, awaited: Awaitable[T], tracer: Tracer, name: str, attributes: dict[str, Any]) -> None:
        self._awaited = awaited
        self._tracer = tracer
        self._name = name
        self._attributes = attributes

    def __await__(self) -> Generator[Any, Any, T]:
        span = self._tracer.start_span(self._name, attributes=self._attributes)
        token = contexts.attach(set_span_in_context(span))
        try:
            return (yield from self._awaited.__await__())
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            contexts.detach(token)
            span.end()

    def close(self) -> None:
        """Closes an awaitable that is never awaited."""
        close = getattr(self._awaited, "close", None) or getattr(self._awaited, "cancel", None)
        if close is not None:
            close()
