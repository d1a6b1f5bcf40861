"""Operations whose answer is a stream: subscriptions, and all others as a stream of one."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from uuid import uuid4

from graphql import ExecutionResult, GraphQLError

from portico.gateway.auth import KeysUnavailable
from portico.gateway.live import Stopping, TooSlow
from portico.gateway.operations.execution import (
    Call,
    Executor,
    Response,
    SubscriptionRefused,
    format_error,
    response_of,
)
from portico.gateway.state import State
from portico.resolvers.errors import DomainError
from portico.resolvers.writes.retries import pause
from portico.schema.context import Caller, Context
from portico.schema.subscriptions import Occurrence

from .requests import Request

# While the database cannot be reached an event waits, for so long: a failover takes seconds.
_REACH_SECONDS = 60.0
_PAUSE_SECONDS = 0.25


class Session:
    """Who is at the other end of a connection that lasts. Their token is looked at again for whatever they are sent."""

    def __init__(self, state: State, authorization: str | None) -> None:
        self.state = state
        self._authorization = authorization
        # As they were when their token was last looked at.
        self.caller: Caller | None = None
        self._expires = math.inf

    async def check(self) -> None:
        """Raises InvalidToken where the token is not good, or not good any more; KeysUnavailable."""
        self.caller, self._expires = await self.state.authenticator.identify(self._authorization)

    @property
    def seconds_left(self) -> float:
        """How long the token is good."""
        return self._expires - time.time()

    async def context(self) -> Context:
        """For one operation, or one event. Raises InvalidToken."""
        try:
            await self.check()
        except KeysUnavailable:
            # They were there when the connection was opened. The token's own end still counts.
            if self.seconds_left <= 0:
                raise
        return self.state.context(self.caller, uuid4().hex)


async def responses(
    executor: Executor, request: Request, session: Session, context: Context, live: asyncio.Event
) -> AsyncGenerator[Response, None]:
    """The answers to an operation, which begins in this context; each event of a subscription has another.

    One without data ends it. `live` is set as soon as a subscription misses nothing more.

    Raises:   TooSlow, Stopping and InvalidToken, which are for the whole connection.
    """
    try:
        yield await executor.execute(
            request.query,
            variables=request.variables,
            name=request.operation_name,
            context=context,
            wants_plan=request.wants_plan,
        )
    except SubscriptionRefused as refused:
        begun = Call(refused.operation, refused.definition, request.variables, request.operation_name, context)
        async with aclosing(_Subscription(executor, session, begun).responses(live)) as events:
            async for response in events:
                yield response


class _Subscription:
    def __init__(self, executor: Executor, session: Session, begun: Call) -> None:
        self._executor = executor
        self._session = session
        self._begun = begun

    async def responses(self, live: asyncio.Event) -> AsyncGenerator[Response, None]:
        call = self._call(self._begun.context)
        source = await self._executor.source_of(call)
        if isinstance(source, ExecutionResult):
            # Also where a field has failed: there is no stream, so nothing has begun.
            yield Response({"errors": [format_error(error, call.context) for error in source.errors or ()]})
            return
        live.set()
        async with aclosing(source):
            while True:
                try:
                    response = await self._reached(await anext(source))
                except StopAsyncIteration:
                    return
                except (TooSlow, Stopping):
                    raise
                except (GraphQLError, DomainError) as error:
                    # The stream has ended, or is no more for this caller.
                    ended = error if isinstance(error, GraphQLError) else GraphQLError("", original_error=error)
                    yield Response({"errors": [format_error(ended, call.context)]})
                    return
                if response is not None:
                    yield response

    def _call(self, context: Context, root: Any = None) -> Call:
        context.selections = self._begun.operation.selections
        # What has just been written may not be on a secondary yet.
        context.reading = context.db
        return replace(self._begun, context=context, root=root)

    async def _reached(self, occurrence: Occurrence) -> Response | None:
        """The answer for one event; None where there is nothing to show. It waits while the database is not there."""
        deadline = time.monotonic() + _REACH_SECONDS
        while True:
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
        except Exception as error:  # noqa: BLE001 - the fault of one event does not end the others
            failed = GraphQLError("", original_error=error)
            return Response({"errors": [format_error(failed, call.context)], "data": None})
        if root is None:
            return None
        return response_of(await self._executor.run(replace(call, root=root)), call.context)
