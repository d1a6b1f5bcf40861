"""The ways to pay that the settings allow."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncIterator

from portico.resolvers.shop.account_payments import AccountPayments
from portico.resolvers.shop.payments import ACCOUNT, TOKEN, PaymentMethods, Payments
from portico.resolvers.shop.settings import ShopSettings
from portico.resolvers.writes.settler import AT_ONCE, Answering


@contextlib.asynccontextmanager
async def opened(settings: ShopSettings, answering: Answering = AT_ONCE) -> AsyncIterator[PaymentMethods]:
    """Opens the payment methods that the settings allow, until the context ends."""
    methods: dict[str, Payments] = {ACCOUNT: AccountPayments(answering)}
    async with contextlib.AsyncExitStack() as stack:
        if settings.payment_url is not None:
            # The client of the provider takes long to import.
            provider = importlib.import_module("portico.gateway.domains.shop.payments.provider")
            methods[TOKEN] = await stack.enter_async_context(provider.token_payments(settings))
        yield PaymentMethods(methods)
