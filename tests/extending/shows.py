"""Shows of the domain `booking`."""

from __future__ import annotations

from typing import Any

from bson import ObjectId

from portico.accounts import open_account
from portico.resolvers.accounts.accounts import domain_account_id
from portico.schema import Kind
from tests.support.harness import GatewayClient

PRICE = 30
BOX_OFFICE = Kind.encode_id("Account", domain_account_id("booking", "USD"))


async def open_show(gateway: GatewayClient, **fields: Any) -> dict[str, Any]:
    """Returns the inputs of a show."""
    show = {"_id": ObjectId(), "seats": 3, "price": PRICE, "currency": "USD", "venue": "globe"}
    await gateway.db["shows"].insert_one(show | fields)
    return {"showId": Kind.encode_id("Show", show["_id"]), "show": show["_id"]}


async def open_account_of_the_box_office(gateway: GatewayClient) -> Any:
    now = gateway.state.clock.now()
    return await open_account(gateway.db, reference="booking", name="The box office", currency="USD", now=now)
