"""Refusals of requests as responses of Starlette: JSON with `errors`, as `/graphql` answers them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .requests import Refused


def response_of(refused: Refused) -> Response:
    error = {"message": refused.message, "extensions": {"code": refused.code, **refused.details}}
    headers = {"Cache-Control": "no-store", **refused.headers}
    return JSONResponse({"errors": [error]}, refused.status, headers=headers)


async def _not_found(_request: Request, _error: Exception) -> Response:
    return response_of(Refused(404, "NOT_FOUND", "There is nothing at this path. GraphQL is at `/graphql`."))


async def _other_method(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"The path does not take {request.method}. The header `Allow` names what it takes."
    return response_of(Refused(405, "METHOD_NOT_ALLOWED", message, error.headers))


# For requests that no route takes, by the status.
NO_ROUTE: Mapping[int, Callable[[Request, Exception], Awaitable[Response]]] = {404: _not_found, 405: _other_method}
