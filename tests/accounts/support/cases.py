"""Inputs of the mutations of accounts, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.accounts.support.accounts import deposit_input, open_account, transfer_input
from tests.catalog.support.cases import Given
from tests.support.harness import GatewayClient


async def _open_account(_gateway: GatewayClient) -> tuple[Given, Given]:
    return {"name": "Savings", "currency": "EUR"}, {"name": "Savings"}


async def _deposit(gateway: GatewayClient) -> tuple[Given, Given]:
    account = await open_account(gateway.db)
    return deposit_input(account, 5), deposit_input(account, 6)


async def _transfer(gateway: GatewayClient) -> tuple[Given, Given]:
    source, destination = await open_account(gateway.db, 100), await open_account(gateway.db)
    return transfer_input(source, destination, 5), transfer_input(source, destination, 6)


# Two inputs for each mutation. Each input succeeds if it comes first.
CASES: dict[str, Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]] = {
    "openAccount": _open_account,
    "deposit": _deposit,
    "transfer": _transfer,
}
