"""What old crashes leave to the jobs of accounts."""

from __future__ import annotations

from tests.accounts.support.accounts import open_account, transfer_input
from tests.support.harness import GatewayClient
from tests.support.leftovers import LONG_AGO, Left


async def _transfer(gateway: GatewayClient, state: str) -> Left:
    source, destination = await open_account(gateway.db, 100), await open_account(gateway.db)
    given = transfer_input(source, destination)
    await gateway.payload("transfer", given)
    open_ = {"state": state, "open_since": LONG_AGO}
    await gateway.db["transfers"].update_one({"source": {"$ne": None}}, {"$set": open_})
    return "transfers", {"open_since": LONG_AGO}


async def new_transfer(gateway: GatewayClient) -> Left:
    return await _transfer(gateway, "NEW")


async def committed_transfer(gateway: GatewayClient) -> Left:
    return await _transfer(gateway, "COMMITTED")


async def rolled_back_transfer(gateway: GatewayClient) -> Left:
    return await _transfer(gateway, "ROLLBACK")
