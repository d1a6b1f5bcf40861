"""Finds the text that a request refers to, before its operation runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from graphql import GraphQLError

from portico.gateway.operations.admission import Overloaded
from portico.gateway.operations.documents import InvalidOperation
from portico.gateway.operations.execution import Executor
from portico.gateway.telemetry.recording import client_name
from portico.resolvers.documents import Database

from .requests import Request
from .streaming import Session


async def resolved(
    request: Request,
    executor: Executor,
    headers: Mapping[str, str],
    *,
    db: Database,
    now: datetime,
    connection: Hashable = None,
) -> Request:
    """Returns the request with the text that it refers to. If the text may not run, the request says why.

    Raises:   Overloaded.
    """
    references = executor.references
    if request.reference is None and references.accepts_all:
        return request
    text = request.query or None
    slot: AbstractAsyncContextManager[Any] = contextlib.nullcontext()
    if references.needs_database(request.reference):
        slot = executor.queries.slot(connection)
    about = {"operation": request.operation_name, "client": client_name(headers)}
    try:
        async with slot:
            text = await references.text_of(text, request.reference, db=db, now=now, about=about)
    except InvalidOperation as refusal:
        return request._replace(query="", refusal=refusal)
    return request._replace(query=text)


async def resolved_for(session: Session, request: Request, seconds: float) -> Request:
    """Does what `resolved` does, within `seconds`. If that fails, the request says why, e.g. because of an overload."""
    state = session.state
    try:
        async with asyncio.timeout(seconds):
            return await resolved(
                request,
                state.executor,
                session.headers,
                db=state.database,
                now=state.clock.now(),
                connection=session.connection,
            )
    except Overloaded as overloaded:
        error = GraphQLError(str(overloaded), extensions=overloaded.formatted["extensions"])
    except TimeoutError as late:
        error = GraphQLError("", original_error=late)
    return request._replace(query="", refusal=InvalidOperation([error]))
