"""Answers of the cache, and runs whose answers it can keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from graphql import OperationType

from portico.gateway.cache.kept_answers import CachedAnswers, KeptAnswer, Query, Recording
from portico.gateway.cache.repeats import Repeatable
from portico.gateway.operations.execution import Charge, Subscription
from portico.gateway.operations.json_text import compact, encode
from portico.gateway.operations.responses import Response
from portico.gateway.reads.recorded import recorded
from portico.gateway.reads.watched_time import WatchedTime
from portico.gateway.state import State
from portico.schema.context import Caller, Context
from portico.schema.watching import watching

from .requests import Request


@dataclass(frozen=True, slots=True)
class KeptResponse(Response):
    """A response whose encoded form is kept.

    Until `good_until`, in seconds since 1970, a request with the same bytes can get it without being parsed.
    """

    answer: KeptAnswer | None = None
    good_until: float = 0.0

    def repeatable(self, request_id: str) -> Repeatable[KeptAnswer] | None:
        """Returns what the connection needs to answer such a request. None if it must be parsed each time."""
        if self.answer is None or not self.good_until:
            return None
        return Repeatable(self.answer, self.good_until, request_id)


def query_of(cache: CachedAnswers, state: State, request: Request, caller: Caller | None) -> Query | None:
    """Returns the query of a request, whose answer the cache may have or get; None if it cannot."""
    if request.wants_plan or request.refusal is not None:
        return None
    if caller is None and state.reading is not state.database:
        # A secondary can lack changes that the change stream has delivered.
        return None
    if state.executor.kind_of(request.query, request.operation_name) is not OperationType.QUERY:
        return None
    return cache.query(request.query, request.operation_name, request.on_error, request.variables)


def recording_context(context: Context, recording: Recording) -> Context:
    """Returns the context of a run that is recorded."""
    database = recorded(context.db, recording.reads)
    context, recording.asked = watching(
        context,
        db=database,
        reading=database,
        caller=recording.watched,
        write=WatchedTime(context.started, recording.reads),
    )
    return context


def kept_response(recording: Recording, response: Response) -> Response:
    """Returns the response of a recorded run, which is kept if it can be."""
    if not response.has_begun or "errors" in response.payload or "extensions" in response.payload:
        recording.query.in_vain()
        return response
    answer = recording.keep(compact(encode(response.payload)))
    return response if answer is None else KeptResponse(response.payload, response.headers, answer=answer)


def charging(recording: Recording, charge: Charge | None) -> Charge:
    """Returns a function that notes the cost of a run, and charges it."""

    def charged(cost: float) -> None:
        recording.cost = cost
        if charge is not None:
            charge(cost)

    return charged


async def kept_or_run(
    state: State,
    request: Request,
    context: Context,
    charge: Charge | None,
    run: Callable[[Context, Charge | None], Awaitable[Response | Subscription]],
) -> Response | Subscription:
    """Returns the kept answer to a request of a stream. Otherwise runs it, and keeps its answer if it can be.

    Raises what `charge` and `run` raise.
    """
    cache, caller, executor = state.cache, context.caller, state.executor
    query = None
    if cache is not None and not executor.lasts(request.query, request.operation_name, request.variables):
        query = query_of(cache, state, request, caller)
    if cache is None or query is None:
        return await run(context, charge)
    kept = await cache.lookup(query, caller, state.clock.now)
    if kept is not None:
        if context.record is not None:
            operation = executor.operations.get(request.query)
            context.record.identify(operation.definition(request.operation_name), operation.document)
        if charge is not None:
            charge(kept.cost)
        return KeptResponse({"data": None}, answer=kept)
    recording = cache.recording(query, caller)
    if recording is None:
        return await run(context, charge)
    try:
        outcome = await run(recording_context(context, recording), charging(recording, charge))
        return kept_response(recording, outcome) if isinstance(outcome, Response) else outcome
    finally:
        recording.end()
