"""Shows of the domain `booking`."""

from __future__ import annotations

from typing import Any

from bson import ObjectId

from portico.schema import Kind
from tests.accounts.support.accounts import open_account
from tests.support.harness import GatewayClient
from tests.support.ids import key_in

PRICE = 30


async def open_show(gateway: GatewayClient, **fields: Any) -> dict[str, Any]:
    """Returns the inputs of a show whose account is somebody else's."""
    payee = await open_account(gateway.db, owner="theater")
    show = {"_id": ObjectId(), "seats": 3, "price": PRICE, "currency": "USD", "account": key_in("Account", payee)}
    show["venue"] = "globe"
    await gateway.db["shows"].insert_one(show | fields)
    return {"showId": Kind.encode_id("Show", show["_id"]), "show": show["_id"], "payee": payee}
