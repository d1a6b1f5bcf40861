"""The payment methods of this gateway: by account, and by token through a payment provider.

The gateway sends these HTTP requests to the provider:

    POST <PORTICO_PAYMENT_URL>/charges              Idempotency-Key: <reference>; {amount, currency, token}
    GET  <PORTICO_PAYMENT_URL>/charges/<reference>  404 if it does not know the reference
    POST <PORTICO_PAYMENT_URL>/refunds              Idempotency-Key: <reference>; {charge, amount, currency}
    GET  <PORTICO_PAYMENT_URL>/refunds/<reference>  404 if it does not know the reference

All answer {status, id, message}. The status is `charged` or `refunded`, with the id of the payment or the refund,
`declined`, which is final, or `pending`, while the outcome is open. `charge` is the id of a payment. Every other
answer, and no answer, leaves the outcome open, too, because the money may have been taken or given back. The gateway
then logs a warning with the reference and the status or the error, but no text of the provider, because that can
contain secrets.

The provider must take or give back the money once for each reference, give the same answer for it within a day, and
return every charge and refund that it has made by GET, without a time limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import orjson

from portico.gateway.logs import logger
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import DomainError
from portico.resolvers.shop.payments import TOKEN, Charge, PaymentUnknown, Refund
from portico.resolvers.shop.refusals import PaymentDeclined, RefundRefused
from portico.resolvers.shop.settings import ShopSettings
from portico.resolvers.waiting import waiting

from .provider_connections import Connections

# If a charge is older than this, send GET before POST.
_ASK_FIRST = timedelta(minutes=1)
# A provider that has forgotten a reference would take the money again. So no POST is sent shortly before a day has
# passed. If the provider does not know a charge some time after that, the money was never taken.
_LAST_ASKED = timedelta(hours=23)
_FORGOTTEN = timedelta(hours=25)
_TRIES = 4
_PAUSE_SECONDS = 0.1
_TOO_MANY = 429
_SERVER_FAULT = 500
_LONGEST_MESSAGE = 200
# Bytes. A longer answer is not read.
_LONGEST_ANSWER = 64 * 1024
# Hints for the operator, by the status of the answer.
_HINTS: dict[int, str] = {
    httpx.codes.UNAUTHORIZED: "Check PORTICO_PAYMENT_KEY: the provider does not accept it.",
    httpx.codes.FORBIDDEN: "Check PORTICO_PAYMENT_KEY: it may not be allowed to make charges.",
    httpx.codes.NOT_FOUND: "Check PORTICO_PAYMENT_URL: the provider does not know the path.",
}
# The status of an answer when the money was taken, or given back.
_CHARGED, _REFUNDED = "charged", "refunded"
_REDIRECTED = "Check PORTICO_PAYMENT_URL: redirects are not followed."


@dataclass(frozen=True)
class _Request:
    """A charge or a refund, as it is sent to the provider."""

    name: str
    reference: str
    begun: datetime
    body: Mapping[str, Any]

    @property
    def path(self) -> str:
        return f"/{self.name}s"


@dataclass(frozen=True)
class _Answer:
    """An answer of the provider. `content` is None if it is too long or compressed."""

    status: int
    content: bytes | None


@contextlib.asynccontextmanager
async def token_payments(settings: ShopSettings) -> AsyncIterator[TokenPayments]:
    """Opens connections to the provider at `payment_url`, until the context ends."""
    async with _connections(settings) as connections:
        yield TokenPayments(connections, settings.payment_seconds)


def _connections(settings: ShopSettings) -> Connections:
    # Refuse compression, so that a short answer cannot expand.
    headers = {"accept-encoding": "identity"}
    if settings.payment_key is not None:
        headers["authorization"] = f"Bearer {settings.payment_key}"
    url = f"{settings.payment_url}".rstrip("/")

    def create(limits: httpx.Limits, tls: ssl.SSLContext) -> httpx.AsyncClient:
        seconds = settings.payment_seconds
        return httpx.AsyncClient(base_url=url, headers=headers, timeout=seconds, limits=limits, verify=tls)

    return Connections(create)


class TokenPayments:
    """Payments with {method: `token`, token}, a token that the provider has given to the payer."""

    def __init__(self, connections: Connections, seconds: float) -> None:
        self._connections = connections
        self._seconds = seconds

    def accepts(self, payment: Document) -> bool:
        return bool(payment["method"] == TOKEN)

    async def charge(self, db: Database, charge: Charge, *, now: datetime) -> str:  # noqa: ARG002 - part of the protocol
        """Collects the money; see `Payments.charge`. A timeout or an invalid answer leaves the outcome unknown."""
        if charge.amount == 0:
            return charge.reference
        body = {"amount": charge.amount, "currency": charge.currency, "token": charge.payment["token"]}
        asked = _Request("charge", charge.reference, charge.begun, body)
        return await self._outcome_of(asked, now, _CHARGED, PaymentDeclined)

    async def refund(self, db: Database, refund: Refund, *, now: datetime) -> str:  # noqa: ARG002 - part of the protocol
        """Gives the money back; see `Payments.refund`. A timeout or an invalid answer leaves the outcome unknown."""
        body = {"charge": refund.payment_reference, "amount": refund.amount, "currency": refund.currency}
        asked = _Request("refund", refund.reference, refund.begun, body)
        return await self._outcome_of(asked, now, _REFUNDED, RefundRefused)

    async def _outcome_of(self, asked: _Request, now: datetime, done: str, refused: type[DomainError]) -> str:
        """Requests the charge or the refund, or looks its outcome up. Returns the id of what was `done`."""
        age = now - asked.begun
        if age > _ASK_FIRST:
            known = await self._send(asked, "GET", f"{asked.path}/{quote(asked.reference, safe='')}")
            if known.status != httpx.codes.NOT_FOUND:
                return _outcome(known, asked, done, refused)
            if age > _FORGOTTEN:
                raise refused(f"The {asked.name} was never made.")
            if age > _LAST_ASKED:
                raise PaymentUnknown
        headers = {"idempotency-key": asked.reference}
        answer = await self._send(asked, "POST", asked.path, json=asked.body, headers=headers)
        return _outcome(answer, asked, done, refused)

    async def _send(self, asked: _Request, method: str, path: str, **request: Any) -> _Answer:
        """Returns the answer. Retries after no answer, a 429 or a status from 500. Raises PaymentUnknown."""
        failure: dict[str, object] = {"error": "TimeoutError"}
        with contextlib.suppress(TimeoutError):
            async with waiting(), asyncio.timeout(self._seconds):
                for attempt in range(_TRIES):
                    await asyncio.sleep(_pause_before(attempt))
                    try:
                        answer = await self._ask(method, path, **request)
                    except httpx.RequestError as error:
                        failure = {"error": type(error).__name__}
                        continue
                    if answer.status != _TOO_MANY and answer.status < _SERVER_FAULT:
                        return answer
                    failure = {"status": answer.status}
        _warn("payment provider did not respond", asked, **failure)
        raise PaymentUnknown

    async def _ask(self, method: str, path: str, **request: Any) -> _Answer:
        async with self._connections.one() as client, client.stream(method, path, **request) as response:
            content = b""
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > _LONGEST_ANSWER:
                    return _Answer(response.status_code, None)
            is_plain = response.headers.get("content-encoding", "identity") == "identity"
            return _Answer(response.status_code, content if is_plain else None)


def _pause_before(attempt: int) -> float:
    return _PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1) if attempt else 0  # noqa: S311 - spreads callers


def _outcome(answer: _Answer, asked: _Request, done: str, refused: type[DomainError]) -> str:
    """Returns the id of the payment or the refund. Raises `refused`, PaymentUnknown."""
    parsed = _parse_answer(answer)
    status = parsed.get("status")
    if status == done:
        return parsed.get("id") or asked.reference
    if status == "declined":
        message = parsed.get("message") or f"The {asked.name} was refused."
        raise refused(message[:_LONGEST_MESSAGE])
    if status != "pending":
        hint = _REDIRECTED if httpx.codes.is_redirect(answer.status) else _HINTS.get(answer.status)
        _warn("payment provider sent an unexpected response", asked, status=answer.status, hint=hint)
    raise PaymentUnknown


def _parse_answer(answer: _Answer) -> dict[str, str]:
    """Returns the strings of an answer; none if it is not readable, or if one of them is not a string."""
    try:
        # orjson rejects deep nesting, invalid numbers and invalid Unicode.
        parsed = orjson.loads(answer.content or b"")
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(parsed, dict):
        return {}
    texts = {name: parsed[name] for name in ("status", "id", "message") if parsed.get(name) is not None}
    return texts if all(isinstance(text, str) for text in texts.values()) else {}


def _warn(event: str, asked: _Request, **facts: object) -> None:
    """Logs a charge or a refund whose outcome stays open.

    It logs the reference, which the cart or the order stores, and not the cart's id, which gives access to a cart
    without an owner.
    """
    known = {name: fact for name, fact in facts.items() if fact is not None}
    logger().warning(event, reference=asked.reference, **known)
