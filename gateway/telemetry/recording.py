"""What operations report to telemetry. The classes here report nothing: they are used while telemetry is off."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from graphql import DocumentNode, OperationDefinitionNode

from portico.gateway.live import Counts
from portico.gateway.operations.responses import Response
from portico.schema.context import Context

T = TypeVar("T")

_EMPTY: Mapping[str, str] = {}

# The headers in which a client says its name, in the order in which they count. A WebSocket client can also say it in
# the payload of its first message.
CLIENT_NAME_HEADERS = ("apollographql-client-name", "graphql-client-name")


def client_name(headers: Mapping[str, str]) -> str | None:
    """Returns the name that a client says in its headers, in their order; None if it says none."""
    return next((headers[name] for name in CLIENT_NAME_HEADERS if headers.get(name)), None)


class Record:
    """One operation, or one event of a subscription: a context manager, from its beginning to its response."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the operation. An error that leaves the block is the reason that it has no response."""

    def recording(self, context: Context) -> Context:
        """Returns the context with which the fields of the operation report to this record."""
        return context

    def identify(self, definition: OperationDefinitionNode, document: DocumentNode) -> None:
        """Says which operation it is, as soon as it is parsed and checked."""

    def answered(self, response: Response) -> None:
        """Says what the response is."""

    def resolving(self, awaited: Awaitable[T], type_name: str, field_name: str) -> Awaitable[T]:
        """Returns the awaitable of a resolver, recorded."""
        return awaited

    def batch(self, awaited: Awaitable[T], fields: Sequence[str], size: int) -> Awaitable[T]:
        """Returns the awaitable that reads the related objects of these fields, recorded."""
        return awaited


class Telemetry:
    """The telemetry of a running gateway."""

    # Whether operations are reported.
    is_on = False

    @property
    def listeners(self) -> Sequence[Any]:
        """The command listeners of the driver that it needs."""
        return ()

    def operation(self, headers: Mapping[str, str], trace: Mapping[str, str] = _EMPTY) -> Record:
        """Returns the record of an operation.

        `headers` name the client and the trace of the caller. `trace` is what the request itself says of its trace.
        """
        return _NOTHING

    def event(self, subscription: Context) -> Record:
        """Returns the record of one event. `subscription` is the context in which its subscription started."""
        return _NOTHING

    def watch(self, counts: Counts) -> None:
        """Reports these counts of subscriptions."""

    async def aclose(self) -> None:
        """Sends what is left, for a bounded time."""


_NOTHING = Record()
