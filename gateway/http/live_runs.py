"""Runs the queries that clients follow with `@live`, and answers from them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from uuid import uuid4

from portico.gateway.live_queries import LiveListener
from portico.gateway.operations.execution import Call, Executor
from portico.gateway.operations.responses import Response, response_of
from portico.gateway.reads.read_sets import ReadSet
from portico.gateway.reads.recorded import recorded
from portico.gateway.reads.watched_time import WatchedTime
from portico.gateway.state import State
from portico.schema.context import Caller, derived

# Stands for the connections of all live queries.
_LIVE = "live queries"


class LiveRuns:
    """The runs of one query."""

    def __init__(self, executor: Executor, state: State, call: Call) -> None:
        self._executor = executor
        self._state = state
        self._call = call

    async def response(self, caller: Caller | None, reads: ReadSet) -> Response:
        """Runs the query once for this caller, and records what it reads."""
        context = self._state.context(caller, uuid4().hex)
        # A secondary may not have what has changed.
        database = recorded(context.db, reads)
        here = derived(
            context,
            db=database,
            reading=database,
            selections=self._call.operation.selections,
            write=WatchedTime(context.started, reads),
            is_live=True,
        )
        with self._state.telemetry.event(self._call.context) as record:
            record.identify(self._call.definition, self._call.operation.document)
            # It has been admitted, so it must run. All live queries together are one connection of the round.
            async with self._executor.queries.slot(_LIVE, must_run=True):
                result = await self._executor.run(replace(self._call, context=record.recording(here)))
                await reads.look_ahead(context.db)
                response = response_of(result, here)
            record.answered(response)
        return response


async def listen(
    executor: Executor, state: State, call: Call, caller: Caller | None, asked: Hashable, known: str | None
) -> LiveListener:
    """Returns the answers to a live query, which `asked` identifies, for this caller.

    Args:     known: the id of the answer that the client has.

    Raises:   TooManyLive; Stopping; a driver's error.
    """
    return await state.live_queries.listen(asked, caller, LiveRuns(executor, state, call).response, known)
