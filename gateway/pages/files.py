"""Serves read-only resources beside GraphQL, with GET and HEAD."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from portico.gateway.http.refusals import response_of
from portico.gateway.http.requests import Refused
from portico.gateway.state import State


class Files(ABC):
    """An ASGI application that answers GET and HEAD requests with the response of `respond`."""

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._response(Request(scope))
        except Refused as refused:
            response = response_of(refused)
        except PyMongoError:
            response = response_of(Refused(503, "UNAVAILABLE", "The database cannot be reached."))
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        if request.method not in {"GET", "HEAD"}:
            raise Refused(405, "METHOD_NOT_ALLOWED", "Use GET or HEAD.", {"Allow": "GET, HEAD"})
        return await self.respond(request, self._state())

    @abstractmethod
    async def respond(self, request: Request, state: State) -> Response:
        """Returns the response. Raises Refused, or an error of the driver."""
