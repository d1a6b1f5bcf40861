"""Streams of responses: those of a subscription, and the one response of any other operation."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Hashable
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from uuid import uuid4

from graphql import ExecutionResult, GraphQLError
from starlette.types import Scope

from portico.gateway.auth import KeysUnavailable
from portico.gateway.live import Stopping, TooSlow
from portico.gateway.operations.admission import Slot
from portico.gateway.operations.execution import (
    Call,
    Executor,
    Response,
    format_error,
    response_of,
)
from portico.gateway.rates import Meter, RateLimited
from portico.gateway.state import State
from portico.resolvers.errors import DomainError
from portico.resolvers.writes.retries import pause
from portico.schema.context import Caller, Context
from portico.schema.subscriptions import Occurrence

from .requests import Request

# How long an event is retried while the database cannot be reached. A failover takes seconds.
_RETRY_SECONDS = 60.0
_PAUSE_SECONDS = 0.25


def address_of(scope: Scope) -> str | None:
    """Returns the address that the client connects from; None if the server does not know it."""
    client = scope.get("client")
    return client[0] if client else None


class Session:
    """The caller of a long-lived connection. The session checks the token again for everything that it sends."""

    def __init__(
        self, state: State, authorization: str | None, *, connection: Hashable = None, address: str | None = None
    ) -> None:
        """`connection` identifies the connection among all others. `address` is the one that the client has."""
        self.state = state
        self.connection = connection
        self._address = address
        self._authorization = authorization
        # The caller at the last check of the token.
        self.caller: Caller | None = None
        self._expires = math.inf

    async def check(self) -> None:
        """Checks the token and updates `caller`. Raises InvalidToken, also for an expired one, and KeysUnavailable."""
        self.caller, self._expires = await self.state.authenticator.identify(self._authorization)

    @property
    def seconds_left(self) -> float:
        """The seconds until the token expires."""
        return self._expires - time.time()

    def meter(self) -> Meter | None:
        """Returns what counts the cost of the caller's next operation; None if no limit applies."""
        return self.state.rates.meter(None if self.caller is None else self.caller.subject, self._address)

    async def context(self) -> Context:
        """Returns the context of one operation or one event. Raises InvalidToken."""
        try:
            await self.check()
        except KeysUnavailable:
            # The keys were available when the connection opened. The token still expires.
            if self.seconds_left <= 0:
                raise
        return self.state.context(self.caller, uuid4().hex, self.connection)


async def responses(
    executor: Executor, request: Request, session: Session, context: Context, live: asyncio.Event
) -> AsyncGenerator[Response, None]:
    """Yields the responses to an operation. It starts in this context; each event of a subscription has its own.

    A response without data is the last. `live` is set as soon as a subscription misses no more events.

    Raises:   Overloaded, before the first response; TooSlow, Stopping and InvalidToken, which concern the whole
              connection.
    """
    meter = session.meter()
    try:
        outcome = await executor.execute(
            request.query,
            variables=request.variables,
            name=request.operation_name,
            context=context,
            wants_plan=request.wants_plan,
            charge=None if meter is None else meter.charge,
        )
    except RateLimited as limited:
        yield Response({"errors": [{"message": str(limited), "extensions": limited.extensions}]})
        return
    if isinstance(outcome, Response):
        yield outcome
        return
    async with aclosing(_RunningSubscription(executor, session, outcome.call).responses(live)) as events:
        async for response in events:
            yield response


class _RunningSubscription:
    def __init__(self, executor: Executor, session: Session, call: Call) -> None:
        self._executor = executor
        self._session = session
        self._started = call

    async def responses(self, live: asyncio.Event) -> AsyncGenerator[Response, None]:
        call = self._call(self._started.context)
        async with self._slot():
            source = await self._executor.source_of(call)
        if isinstance(source, ExecutionResult):
            # A field may have failed. Either way there is no stream, so the subscription has not started.
            yield Response({"errors": [format_error(error, call.context) for error in source.errors or ()]})
            return
        live.set()
        async with aclosing(source):
            while True:
                try:
                    response = await self._response_with_retry(await anext(source))
                except StopAsyncIteration:
                    return
                except (TooSlow, Stopping):
                    raise
                except (GraphQLError, DomainError) as error:
                    # The stream has ended, or this caller may not see it any more.
                    ended = error if isinstance(error, GraphQLError) else GraphQLError("", original_error=error)
                    yield Response({"errors": [format_error(ended, call.context)]})
                    return
                if response is not None:
                    yield response

    def _slot(self) -> Slot:
        """A subscription has a slot while it starts, and for each event. It has been admitted, so it must run."""
        return self._executor.queries.slot(self._session.connection, must_run=True)

    def _call(self, context: Context, root: Any = None) -> Call:
        context.selections = self._started.operation.selections
        # A secondary may not have the newest writes yet.
        context.reading = context.db
        return replace(self._started, context=context, root=root)

    async def _response_with_retry(self, occurrence: Occurrence) -> Response | None:
        """Returns the response for one event; None if there is nothing to show. Retries while the database is
        unavailable.
        """
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            async with self._slot():
                response = await self._response(occurrence)
            if response is None or "UNAVAILABLE" not in response.codes or time.monotonic() > deadline:
                return response
            await pause(_PAUSE_SECONDS)

    async def _response(self, occurrence: Occurrence) -> Response | None:
        call = self._call(await self._session.context())
        try:
            async with asyncio.timeout(self._session.state.settings.operation_seconds):
                root = await occurrence.root(call.context)
        except (GraphQLError, DomainError):
            raise
        except Exception as error:  # noqa: BLE001 - a fault in one event does not end the subscription
            failed = GraphQLError("", original_error=error)
            return Response({"errors": [format_error(failed, call.context)], "data": None})
        if root is None:
            return None
        return response_of(await self._executor.run(replace(call, root=root)), call.context)
