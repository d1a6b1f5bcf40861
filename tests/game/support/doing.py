"""What a player does."""

from __future__ import annotations

from typing import Any

from tests.game.support.stacks import call
from tests.support.harness import GatewayClient

SHOWN = """
    id name gold
    location { locationId name characters { characterId name } inventory { id contents { id } } }
    inventory { id contents { id } }
    armor { head { id } } weapons { left { id } right { id } both { id } }
"""


async def do(gateway: GatewayClient, mutation: str, subject: str = "ann", **given: Any) -> Any:
    """Carries out a mutation, and returns its payload or error."""
    return await call(gateway, mutation, subject, given)
