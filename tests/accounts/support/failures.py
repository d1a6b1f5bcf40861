"""Failures of the mutations of accounts."""

from __future__ import annotations

from bson import ObjectId

from portico.schema.kinds import Kind
from portico.testing.kits import Failing, Failure, fails_with
from tests.accounts.support.accounts import deposit, deposit_input, open_account, transfer_input
from tests.support.harness import GatewayClient


async def _too_poor(gateway: GatewayClient) -> Failure:
    mine, theirs = await open_account(gateway.db, 5), await open_account(gateway.db)
    return Failure(transfer_input(mine, theirs, 10), lambda: deposit(gateway, deposit_input(mine, 50)))


NO_ACCOUNT = Kind.encode_id("Account", ObjectId())


FAILURES: dict[tuple[str, str], Failing] = {
    ("openAccount", "InvalidInput"): fails_with(lambda: {"name": ""}),
    ("transfer", "InsufficientFunds"): _too_poor,
    ("transfer", "NotFound"): fails_with(lambda: transfer_input(NO_ACCOUNT, Kind.encode_id("Account", ObjectId()))),
    ("transfer", "InvalidInput"): fails_with(lambda: transfer_input(NO_ACCOUNT, NO_ACCOUNT)),
}
