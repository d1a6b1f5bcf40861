"""What old crashes leave for jobs: values that no other document has, and how to set them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from portico.testing.kits import Left
from tests.support.harness import GatewayClient

__all__ = ["LONG_AGO", "OP", "Left", "set_values"]

OP = "r-0123456789abcdef0123456789abcdef"
LONG_AGO = datetime(2020, 1, 1)  # noqa: DTZ001 - as the driver gives it


async def set_values(gateway: GatewayClient, collection: str, key: Any, **values: Any) -> None:
    updated = await gateway.db[collection].update_one({"_id": key}, {"$set": values})
    assert updated.matched_count == 1
