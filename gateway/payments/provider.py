"""The ways to pay that this gateway has: by account, and by token through a payment provider.

The provider is asked over HTTP, by two requests:

    POST <PORTICO_PAYMENT_URL>/charges              Idempotency-Key: <reference>; {amount, currency, token}
    GET  <PORTICO_PAYMENT_URL>/charges/<reference>  404 where it has never seen the reference

Both answer {status, id, message}: `charged` with the id of the payment, `declined`, for good, or `pending` while the
outcome is open. Whatever else comes, or does not come, leaves it open, too: money may have been taken. Then a warning
tells the operator which charge it is, by its reference, and what the provider answered, but nothing that it said: that
may be a secret. The provider must take the money of one reference once, answer the same for it within a day, and know
for good, by GET, every charge that it has made.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import orjson

from portico.gateway.logs import logger
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import PaymentDeclined
from portico.resolvers.payments import ACCOUNT, TOKEN, Charge, PaymentMethods, Payments, PaymentUnknown
from portico.resolvers.shop.account_payments import AccountPayments
from portico.resolvers.shop.settings import ShopSettings

# A charge is asked about before it is asked for again once it is so old.
_ASK_FIRST = timedelta(minutes=1)
# Who forgets a reference takes its money again. So the provider is not asked for it any more when its day comes to an
# end; and what it does not know after that was never taken.
_LAST_ASKED = timedelta(hours=23)
_FORGOTTEN = timedelta(hours=25)
_TRIES = 4
_PAUSE_SECONDS = 0.1
_TOO_MANY = 429
_SERVER_FAULT = 500
_LONGEST_MESSAGE = 200
# Bytes. No more of an answer is read.
_LONGEST_ANSWER = 64 * 1024
# What an operator may look at first.
_HINTS: dict[int, str] = {
    httpx.codes.UNAUTHORIZED: "Is PORTICO_PAYMENT_KEY the key that the provider asks for?",
    httpx.codes.FORBIDDEN: "May PORTICO_PAYMENT_KEY be used for charges?",
    httpx.codes.NOT_FOUND: "Is PORTICO_PAYMENT_URL that of the provider?",
}
_REDIRECTED = "Redirects are not followed: is PORTICO_PAYMENT_URL that of the provider?"


@dataclass(frozen=True)
class _Answer:
    """What the provider answered. `content` is None where it cannot be read: too long, or compressed."""

    status: int
    content: bytes | None


@contextlib.asynccontextmanager
async def opened(settings: ShopSettings) -> AsyncIterator[PaymentMethods]:
    """What the settings allow to pay with, until it is left."""
    methods: dict[str, Payments] = {ACCOUNT: AccountPayments()}
    async with contextlib.AsyncExitStack() as stack:
        if settings.payment_url is not None:
            client = await stack.enter_async_context(_client(settings))
            methods[TOKEN] = TokenPayments(client, settings.payment_seconds)
        yield PaymentMethods(methods)


def _client(settings: ShopSettings) -> httpx.AsyncClient:
    # What is not compressed cannot become longer than it is.
    headers = {"accept-encoding": "identity"}
    if settings.payment_key is not None:
        headers["authorization"] = f"Bearer {settings.payment_key}"
    url = f"{settings.payment_url}".rstrip("/")
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=settings.payment_seconds)


class TokenPayments:
    """Payments with {method: `token`, token}: a token that the provider has given to the payer."""

    def __init__(self, client: httpx.AsyncClient, seconds: float) -> None:
        self._client = client
        self._seconds = seconds

    def takes(self, payment: Document) -> bool:
        return bool(payment["method"] == TOKEN)

    async def charge(self, db: Database, charge: Charge, *, now: datetime) -> str:  # noqa: ARG002 - as others do
        """As `Payments.charge`. A time-out, and whatever cannot be understood, leaves the outcome unknown."""
        if charge.amount == 0:
            return charge.reference
        age = now - charge.begun
        if age > _ASK_FIRST:
            known = await self._send(charge, "GET", f"/charges/{quote(charge.reference, safe='')}")
            if known.status != httpx.codes.NOT_FOUND:
                return _outcome(known, charge)
            if age > _FORGOTTEN:
                raise PaymentDeclined("The payment was never made.")
            if age > _LAST_ASKED:
                raise PaymentUnknown
        body = {"amount": charge.amount, "currency": charge.currency, "token": charge.payment["token"]}
        headers = {"idempotency-key": charge.reference}
        asked = await self._send(charge, "POST", "/charges", json=body, headers=headers)
        return _outcome(asked, charge)

    async def _send(self, charge: Charge, method: str, path: str, **request: Any) -> _Answer:
        """The answer; asked for again where there was none, or one of a provider in trouble. Raises PaymentUnknown."""
        failure: dict[str, object] = {"error": "TimeoutError"}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
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
        _warn("payment provider did not respond", charge, **failure)
        raise PaymentUnknown

    async def _ask(self, method: str, path: str, **request: Any) -> _Answer:
        async with self._client.stream(method, path, **request) as response:
            content = b""
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > _LONGEST_ANSWER:
                    return _Answer(response.status_code, None)
            is_plain = response.headers.get("content-encoding", "identity") == "identity"
            return _Answer(response.status_code, content if is_plain else None)


def _pause_before(attempt: int) -> float:
    return _PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1) if attempt else 0  # noqa: S311 - spreads callers


def _outcome(answer: _Answer, charge: Charge) -> str:
    """The id of the payment. Raises PaymentDeclined, PaymentUnknown."""
    told = _told(answer)
    status = told.get("status")
    if status == "charged":
        return told.get("id") or charge.reference
    if status == "declined":
        message = told.get("message") or "The payment was refused."
        raise PaymentDeclined(message[:_LONGEST_MESSAGE])
    if status != "pending":
        hint = _REDIRECTED if httpx.codes.is_redirect(answer.status) else _HINTS.get(answer.status)
        _warn("payment provider sent an unexpected response", charge, status=answer.status, hint=hint)
    raise PaymentUnknown


def _told(answer: _Answer) -> dict[str, str]:
    """The texts of an answer; none where it cannot be read, or says something else in the place of one."""
    try:
        # Refuses what is nested too deeply, no number, or no text of Unicode.
        told = orjson.loads(answer.content or b"")
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(told, dict):
        return {}
    texts = {name: told[name] for name in ("status", "id", "message") if told.get(name) is not None}
    return texts if all(isinstance(text, str) for text in texts.values()) else {}


def _warn(event: str, charge: Charge, **facts: object) -> None:
    """Tells the operator of a charge whose outcome stays open.

    The cart has the reference; the key of a cart without an owner opens it, and is not for a log.
    """
    known = {name: fact for name, fact in facts.items() if fact is not None}
    logger().warning(event, reference=charge.reference, **known)
