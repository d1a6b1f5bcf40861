"""The ways to pay that this gateway has: by account, and by token through a payment provider.

The provider is asked over HTTP, by two requests:

    POST <PORTICO_PAYMENT_URL>/charges              Idempotency-Key: <reference>; {amount, currency, token}
    GET  <PORTICO_PAYMENT_URL>/charges/<reference>  404 where it has never seen the reference

Both answer {status, id, message}: `charged` with the id of the payment, `declined`, for good, or `pending` while the
outcome is open. The provider must take the money of one reference once, answer the same for it within a day, and know
for good, by GET, every charge that it has made.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx

from resolvers.account_payments import AccountPayments
from resolvers.documents import Database, Document
from resolvers.errors import PaymentDeclined
from resolvers.payments import ACCOUNT, TOKEN, Charge, PaymentMethods, Payments, PaymentUnknown

from .logs import logger
from .settings import Settings

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


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[PaymentMethods]:
    """What the settings allow to pay with, until it is left."""
    methods: dict[str, Payments] = {ACCOUNT: AccountPayments()}
    async with contextlib.AsyncExitStack() as stack:
        if settings.payment_url is not None:
            client = await stack.enter_async_context(_client(settings))
            methods[TOKEN] = TokenPayments(client, settings.payment_seconds)
        yield PaymentMethods(methods)


def _client(settings: Settings) -> httpx.AsyncClient:
    headers = {} if settings.payment_key is None else {"authorization": f"Bearer {settings.payment_key}"}
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
            known = await self._send("GET", f"/charges/{quote(charge.reference, safe='')}")
            if known.status_code != httpx.codes.NOT_FOUND:
                return _outcome(known, charge)
            if age > _FORGOTTEN:
                raise PaymentDeclined("The payment was never made.")
            if age > _LAST_ASKED:
                raise PaymentUnknown
        body = {"amount": charge.amount, "currency": charge.currency, "token": charge.payment["token"]}
        asked = await self._send("POST", "/charges", json=body, headers={"idempotency-key": charge.reference})
        return _outcome(asked, charge)

    async def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """The answer; asked for again where there was none, or one of a provider in trouble. Raises PaymentUnknown."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                for attempt in range(_TRIES):
                    await asyncio.sleep(_pause_before(attempt))
                    with contextlib.suppress(httpx.TransportError):
                        answer = await self._client.request(method, path, **request)
                        if answer.status_code != _TOO_MANY and answer.status_code < _SERVER_FAULT:
                            return answer
        raise PaymentUnknown


def _pause_before(attempt: int) -> float:
    return _PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1) if attempt else 0  # noqa: S311 - spreads callers


def _outcome(answer: httpx.Response, charge: Charge) -> str:
    """The id of the payment. Raises PaymentDeclined, PaymentUnknown."""
    try:
        told = answer.json()
    except ValueError:
        told = None
    status = told.get("status") if isinstance(told, dict) else None
    if status == "charged":
        return str(told.get("id") or charge.reference)
    if status == "declined":
        message = str(told.get("message") or "The payment was refused.")
        raise PaymentDeclined(message[:_LONGEST_MESSAGE])
    if status != "pending":
        logger().warning("the payment provider was not understood", status=answer.status_code)
    raise PaymentUnknown
