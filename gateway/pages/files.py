"""Serves read-only resources beside GraphQL, with GET and HEAD."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from portico.gateway.state import State


class NotServed(Exception):
    """The request cannot be served. `status` says why."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.response = JSONResponse(
            {"error": message}, status, headers={"Cache-Control": "no-store", **(headers or {})}
        )


class Files(ABC):
    """An ASGI application that answers GET and HEAD requests with the response of `respond`."""

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._response(Request(scope))
        except NotServed as reason:
            response = reason.response
        except PyMongoError:
            response = NotServed(503, "The database cannot be reached.").response
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        if request.method not in {"GET", "HEAD"}:
            raise NotServed(405, "Use GET or HEAD.", {"Allow": "GET, HEAD"})
        return await self.respond(request, self._state())

    @abstractmethod
    async def respond(self, request: Request, state: State) -> Response:
        """Returns the response. Raises NotServed, or an error of the driver."""
