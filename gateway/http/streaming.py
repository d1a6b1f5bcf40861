"""Streams of responses: those of a subscription or a live query, and the one response of any other operation."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Hashable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from graphql import ExecutionResult, GraphQLError, OperationType
from starlette.types import Scope

from portico.gateway.auth import Identity, InvalidToken, KeysUnavailable
from portico.gateway.caller_rates import Meter, RateLimited
from portico.gateway.ended import Stopping, TooSlow
from portico.gateway.event_ids import EventIds
from portico.gateway.given_json import sorted_json
from portico.gateway.operations.admission import Slot
from portico.gateway.operations.encoding import EncodedResponse
from portico.gateway.operations.execution import Call, Charge, Executor, Progress, Subscription
from portico.gateway.operations.json_text import compact
from portico.gateway.operations.responses import Response, format_error, response_of
from portico.gateway.resuming import Resumable
from portico.gateway.state import State
from portico.resolvers.changes import Event
from portico.resolvers.cursors import Cursors
from portico.resolvers.errors import DomainError
from portico.resolvers.writes.retries import pause
from portico.schema.context import Caller, Context, Live, derived
from portico.schema.subscriptions import Occurrences

from .kept import KeptResponse, kept_or_run
from .live_runs import listen
from .patches import Patches
from .requests import Request

# How long an event is read again after it could not be read the first time. A failover takes seconds.
_RETRY_SECONDS = 60.0
_PAUSE_SECONDS = 0.25
# The database cannot be reached, or does not answer: a primary may hang before another one takes over.
_RETRIED = {"UNAVAILABLE", "TIMEOUT"}


def address_of(scope: Scope) -> str | None:
    """Returns the address that the client connects from; None if the server does not know it."""
    client = scope.get("client")
    return client[0] if client else None


class Session:
    """The caller of a long-lived connection. The session checks the token again for everything that it sends."""

    def __init__(
        self,
        state: State,
        authorization: str | None,
        headers: Mapping[str, str],
        *,
        connection: Hashable = None,
        address: str | None = None,
    ) -> None:
        """`connection` identifies the connection among all others. `address` is the one that the client has.

        `headers` are those of the request that opened it.
        """
        self.state = state
        self.headers = headers
        self.connection = connection
        self._address = address
        self._authorization = authorization
        # The result of the last check of the token.
        self._identity: Identity | None = None

    @property
    def caller(self) -> Caller | None:
        """The caller at the last check of the token."""
        return None if self._identity is None else self._identity.caller

    @property
    def is_checked(self) -> bool:
        """Whether the token need not be checked again at the moment."""
        return self.good_until > time.time()

    async def check(self) -> None:
        """Checks the token and updates `caller`. Raises InvalidToken, also for an expired one, and KeysUnavailable."""
        self._identity = await self.state.authenticator.identify(self._authorization)

    @property
    def good_until(self) -> float:
        """Until when the token need not be checked again, in seconds since 1970."""
        return 0.0 if self._identity is None else self._identity.good_until

    @property
    def seconds_left(self) -> float:
        """The seconds until the token expires."""
        return math.inf if self._identity is None else self._identity.expires - time.time()

    def meter(self) -> Meter | None:
        """Returns what counts the cost of the caller's next operation; None if no limit applies."""
        return self.state.rates.meter(None if self.caller is None else self.caller.subject, self._address)

    async def renew(self) -> None:
        """Checks the token for one more message. Raises InvalidToken."""
        try:
            await self.check()
        except KeysUnavailable:
            # The keys were available when the connection opened. The token still expires.
            if self.seconds_left <= 0:
                raise

    def resumable(self, request: Request | None = None) -> Resumable:
        """Returns the live events whose ids fit this subscription; without one, all subscriptions of the caller."""
        subject = None if self.caller is None else self.caller.subject
        asked = () if request is None else (request.query, request.operation_name, request.variables)
        ids = EventIds(self.state.resources.of(Cursors), subject, *asked)
        last_id = None if request is None else request.last_event_id
        return Resumable(self.state.live, ids, last_id)

    async def context(self) -> Context:
        """Returns the context of one operation. Raises InvalidToken."""
        await self.renew()
        return self.state.context(self.caller, uuid4().hex, self.connection)


async def responses(
    executor: Executor, request: Request, session: Session, context: Context, progress: Progress
) -> AsyncGenerator[EncodedResponse, None]:
    """Yields the responses to an operation. It starts in this context; each event of a subscription has its own.

    A response without data is the last. `progress` says how far the operation is.

    Raises:   Overloaded, before the first response; TooSlow, Stopping and InvalidToken, of the whole connection.
    """
    opened = await _opened(executor, request, session, context, progress)
    if not isinstance(opened, tuple):
        del context  # A live query runs for long, with a context of its own.
        async with aclosing(_answers(executor, request, session, opened, progress)) as others:
            async for answer in others:
                yield answer
        return
    running, source = opened
    progress.live.set()
    answers = session.state.answers
    selection = answers.selection(*_asked(request), source.show)
    delivered: int | None = None
    # Few calls are nested here, because every delivery resumes all of them.
    async with aclosing(source.events) as events:
        while True:
            try:
                event = await anext(events)
            except StopAsyncIteration:
                return
            except GraphQLError as error:
                yield _end(context, error)
                return
            response = await answers.get(event, selection, session.caller, partial(running.answer, source, event))
            # The answer may have taken long, and others may have asked for it.
            if not session.is_checked:
                await session.renew()
            if response is not None and response.is_newer_than(delivered):
                delivered = delivered if response.order is None else response.order
                yield response
                if response.is_last:
                    return


async def _answers(
    executor: Executor, request: Request, session: Session, opened: EncodedResponse | Call, progress: Progress
) -> AsyncGenerator[EncodedResponse, None]:
    """Yields the one response to an operation; of a live query the answer, and each newer one that differs."""
    if isinstance(opened, EncodedResponse):
        yield opened
        return
    call = opened
    try:
        asked, known = _asked(request), request.last_event_id
        async with aclosing(await listen(executor, session.state, call, session.caller, asked, known)) as answers:
            progress.live.set()
            patches = Patches() if request.wants_patches else None
            async for response in answers:
                if not session.is_checked:
                    await session.renew()
                yield response if patches is None else patches.message_of(response)
                if response.is_last:
                    return
    except (Stopping, InvalidToken):
        raise
    except Exception as error:  # noqa: BLE001 - any fault goes to the log, not to the client
        yield EncodedResponse.of(_last(call.context, error))


def _end(context: Context, error: GraphQLError) -> EncodedResponse:
    """Returns the response that ends a subscription with this error. Raises one that concerns the connection."""
    if isinstance(error, TooSlow | Stopping):
        raise error
    return EncodedResponse.of(_last(context, error))


def _asked(request: Request) -> tuple[Hashable, ...]:
    """Returns what decides the answer to an event, besides the caller and what the subscription shows.

    Events and live answers never show their plan, so it does not matter who wants it.
    """
    return request.query, request.operation_name, request.on_error, _hashable(request.variables)


async def _opened(
    executor: Executor, request: Request, session: Session, context: Context, progress: Progress
) -> EncodedResponse | Call | tuple[_RunningSubscription, Occurrences]:
    """Runs the operation, or starts the subscription. Returns the response, or the events of the subscription.

    Returns a live query unrun.
    """
    with session.state.telemetry.operation(session.headers, request.trace) as record:
        outcome = await _outcome(executor, request, session, record.recording(context), progress)
        if isinstance(outcome, Subscription):
            if outcome.call.definition.operation is OperationType.QUERY:
                return outcome.call
            running = _RunningSubscription(executor, session, outcome.call)
            source = await running.source(_asked(request))
            if not isinstance(source, Response):
                return running, source
            outcome = source
        record.answered(outcome)
    if isinstance(outcome, KeptResponse) and outcome.answer is not None:
        return EncodedResponse(outcome.answer.body, is_last=False)
    # The answer waits until its client reads. Its data is needed no more.
    return EncodedResponse.of(outcome)


async def _outcome(
    executor: Executor, request: Request, session: Session, context: Context, progress: Progress
) -> Response | Subscription:
    """Runs the operation, unless it is a subscription or its answer is kept. If the caller has used up its allowance,
    returns the error.
    """

    def run(context: Context, charge: Charge | None) -> Awaitable[Response | Subscription]:
        return executor.execute(
            request.query,
            variables=request.variables,
            name=request.operation_name,
            context=context,
            wants_plan=request.wants_plan,
            charge=charge,
            progress=progress,
            # A subscription that continues is like one that was never cut off.
            must_run=isinstance(context.live, Resumable) and context.live.continues,
            refusal=request.refusal,
            on_error=request.on_error,
            may_stream=True,
        )

    meter = session.meter()
    charge = None if meter is None else meter.charge
    try:
        return await kept_or_run(session.state, request, context, charge, run)
    except RateLimited as limited:
        return Response({"errors": [{"message": str(limited), "extensions": limited.extensions}]})


class _RunningSubscription:
    def __init__(self, executor: Executor, session: Session, call: Call) -> None:
        self._executor = executor
        self._state = session.state
        self._connection = session.connection
        self._started = call

    async def source(self, asked: Hashable) -> Occurrences | Response:
        """Starts the subscription. Returns its events, or the response that says why it cannot start.

        Equal subscriptions have equal values `asked`.
        """
        context = self._started.context
        source = await self._state.starts.start(asked, context.caller, context.live, self._begin)
        if isinstance(source, ExecutionResult):
            # A field may have failed. Either way there is no stream, so the subscription has not started.
            return _last(self._started.context, *(source.errors or ()))
        found: Occurrences = source
        return found

    async def _begin(self, caller: Caller | None, live: Live) -> Any:
        context = derived(self._started.context, caller=caller, live=live)
        # A start for others does not wait behind the operations of this connection.
        connection = self._connection if live is self._started.context.live else object()
        async with self._executor.queries.slot(connection, must_run=True):
            return await self._executor.source_of(replace(self._started, context=context))

    def _slot(self) -> Slot:
        """A subscription has a slot while it starts, and for each event. It has been admitted, so it must run."""
        return self._executor.queries.slot(self._connection, must_run=True)

    def _call(self, context: Context) -> Call:
        # A secondary may not have the newest writes yet.
        here = derived(context, selections=self._started.operation.selections, reading=context.db)
        return replace(self._started, context=here)

    async def answer(self, source: Occurrences, event: Event, caller: Caller | None) -> EncodedResponse | None:
        """Returns the response for one event; None if there is nothing to show. Reads the event again while the
        database is unavailable or does not answer in time.
        """
        retries_until = math.inf
        while True:
            response = await self._attempt(source, event, self._state.context(caller, uuid4().hex))
            is_unread = response is not None and response.has_begun and not response.codes.isdisjoint(_RETRIED)
            if not is_unread or time.monotonic() > retries_until:
                return None if response is None else EncodedResponse.of(response, event.at)
            # An attempt can take as long as all retries may. There is at least one.
            retries_until = min(retries_until, time.monotonic() + _RETRY_SECONDS)
            self._state.live.counts.retries += 1
            await pause(_PAUSE_SECONDS)

    async def _attempt(self, source: Occurrences, event: Event, context: Context) -> Response | None:
        """Returns the response for one event, or for the failure to compute it; None if there is nothing to show."""
        with self._state.telemetry.event(self._started.context) as record:
            record.identify(self._started.definition, self._started.operation.document)
            try:
                async with self._slot():
                    response = await self._response(source, event, self._call(record.recording(context)))
            except Exception as error:  # noqa: BLE001 - any fault goes to the log, not to the clients
                # Or this caller may not see the events any more.
                response = _last(context, error)
            if response is not None:
                record.answered(response)
            return response

    async def _response(self, source: Occurrences, event: Event, call: Call) -> Response | None:
        try:
            async with asyncio.timeout(self._state.settings.operation_seconds):
                root = await source.show(call.context, event)
        except (GraphQLError, DomainError):
            raise
        except Exception as error:  # noqa: BLE001 - a fault in one event does not end the subscription
            failed = GraphQLError("", original_error=error)
            return Response({"errors": [format_error(failed, call.context)], "data": None})
        if root is None:
            return None
        order = None if source.order is None else source.order(root)
        return replace(response_of(await self._executor.run(replace(call, root=root)), call.context), order=order)


def _last(context: Context, *errors: Exception) -> Response:
    """Returns the response that ends a subscription with these errors."""
    located = (one if isinstance(one, GraphQLError) else GraphQLError("", original_error=one) for one in errors)
    return Response({"errors": [format_error(error, context) for error in located]})


def _hashable(variables: Mapping[str, Any]) -> Hashable:
    """Returns a value that is equal for equal variables. Distinguishes all JSON values, also 1, 1.0 and true."""
    return compact(sorted_json(variables))
