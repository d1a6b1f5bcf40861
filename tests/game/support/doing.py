"""What a player does."""

from __future__ import annotations

from typing import Any

from tests.support.harness import GatewayClient

SHOWN = """
    id name gold
    location { locationId name characters { characterId name } inventory { id contents { id } } }
    inventory { id contents { id } }
    armor { head { id } } weapons { left { id } right { id } both { id } }
"""


ERRORS = """
    ... on UserError { __typename message }
    ... on ItemGone { itemId }
    ... on LimitReached { limit }
"""


async def do(gateway: GatewayClient, field: str, subject: str = "ann", **given: Any) -> Any:
    """Carries out a mutation, and returns its payload or error."""
    name = field[0].upper() + field[1:]
    kinds = {"pickUp": "Item", "drop": "Item", "unequip": "Item", "takeOut": "Container", "putIn": "Container"}
    gold = "... on InsufficientGold { price gold }" if field in ("buy", "sell") else ""
    shown = ERRORS if field not in ("createCharacter", "move") else "... on UserError { __typename message }"
    text = f"""mutation ($input: {kinds.get(field, name)}Input!) {{ {field}(input: $input) {{
        __typename ... on CharacterPayload {{ character {{ {SHOWN} }} }} {shown} {gold} }} }}"""
    return (await gateway.data(text, {"input": given}, token=gateway.token(subject)))[field]
