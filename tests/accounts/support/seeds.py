"""Creates accounts."""

from __future__ import annotations

from portico.testing.kits import Known
from tests.accounts.support.accounts import open_account, transfer_input
from tests.support.harness import GatewayClient


async def seed(gateway: GatewayClient, _known: Known) -> Known:
    """Creates two accounts, with a transfer between them."""
    accounts = [await open_account(gateway.db, amount) for amount in (1_000_000, 0)]
    given = transfer_input(accounts[0], accounts[1], 1000)
    moved = await gateway.result("transfer", {**given, "idempotencyKey": "a transfer"})
    return {"id": [*accounts, moved["transfer"]["id"]]}
