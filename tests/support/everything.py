"""Creates objects of every type that the gateway serves, for tests with generated operations."""

from __future__ import annotations

from portico.testing.kits import Known
from tests.support.harness import GatewayClient
from tests.support.kits import kits


async def create_everything(gateway: GatewayClient) -> Known:
    """Creates the objects of all kits. Returns the values that find them."""
    known: Known = {}
    for kit in kits().values():
        if kit.seed is not None:
            for name, values in (await kit.seed(gateway, known)).items():
                known.setdefault(name, []).extend(values)
    return {**known, "ids": known["id"]}
