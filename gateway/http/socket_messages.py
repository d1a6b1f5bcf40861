"""The messages of clients on sockets, and the codes with which the gateway closes a socket.

Source: the protocol of graphql-ws, version 5 and later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers

from portico.gateway.given_json import UnreadableJson, parse_json, with_whole_numbers
from portico.gateway.telemetry.recording import CLIENT_NAME_HEADERS

# The most bytes of the reason in a close frame (RFC 6455, section 5.5).
_MAX_REASON_BYTES = 123

# The close codes of the gateway. The protocol defines those from 4400 on, except TOO_SLOW.
RESTART, UNENDED, TOO_BIG, TRY_LATER = 1012, 1008, 1009, 1013
INVALID, UNAUTHORIZED, FORBIDDEN, NO_SUBPROTOCOL, INIT_TIMEOUT = 4400, 4401, 4403, 4406, 4408
ID_TAKEN, TOO_SLOW, INIT_TWICE, FAULT = 4409, 4410, 4429, 4500


class Close(Exception):
    """Closes the socket with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")


def message_of(text: str | None, limit: int) -> Mapping[str, Any]:
    """Returns the message in a frame. Raises Close."""
    if text is None:
        raise Close(INVALID, "Invalid message: it must be a text frame")
    # The ASGI server may have a lower limit and close the socket itself.
    if len(text) > limit:
        raise Close(TOO_BIG, f"The message has more than {limit:,} bytes.")
    try:
        message = parse_json(text)
        if isinstance(message, dict):
            payload = message.get("payload")
            return with_whole_numbers(message, text, payload.get("variables") if isinstance(payload, dict) else None)
    except UnreadableJson as error:
        raise Close(INVALID, f"Invalid message: it {error}") from None
    raise Close(INVALID, "Invalid message: it must be a JSON object")


def payload_of(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    payload = message.get("payload")
    if payload is not None and not isinstance(payload, dict):
        raise Close(INVALID, "Invalid message: `payload` must be an object")
    return payload


def id_of(message: Mapping[str, Any]) -> str:
    key = message.get("id")
    if not isinstance(key, str) or not key:
        raise Close(INVALID, "Invalid message: `id` must be a string that is not empty")
    return key


def headers_of(payload: Mapping[str, Any], headers: Headers) -> Mapping[str, str]:
    """Returns the headers, with the client's name in the payload of `connection_init`, where browsers can set it."""
    given = {name.lower(): value for name, value in payload.items() if isinstance(value, str)}
    names = {name: given[name] for name in CLIENT_NAME_HEADERS if name in given}
    return {**headers, **names} if names else headers


def authorization_of(payload: Mapping[str, Any], headers: Headers) -> str | None:
    """Returns `Authorization` from the payload of `connection_init`, where browsers can set it, or from the header.

    Raises Close.
    """
    given = next((value for name, value in payload.items() if name.lower() == "authorization"), None)
    if given is None:
        return headers.get("authorization")
    if not isinstance(given, str):
        raise Close(FORBIDDEN, "`Authorization` must be `Bearer`, then a space and a token.")
    return given
