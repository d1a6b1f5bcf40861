"""The mutations of members and their circles."""

from __future__ import annotations

from typing import Any

from tests.support.harness import GatewayClient

USER = "user { id name profile { about location website birthYear interests } }"
RESULT = f"__typename ... on UserError {{ message }} ... on InvalidInput {{ path }} ... on UserPayload {{ {USER} }}"
JOIN = f"mutation ($input: JoinInput!) {{ join(input: $input) {{ {RESULT} }} }}"
UPDATE = f"mutation ($input: UpdateProfileInput!) {{ updateProfile(input: $input) {{ {RESULT} }} }}"
ADD = f"mutation ($input: CircleInput!) {{ addToCircle(input: $input) {{ {RESULT} }} }}"
REMOVE = f"mutation ($input: CircleInput!) {{ removeFromCircle(input: $input) {{ {RESULT} }} }}"
BLOCK = f"mutation ($input: BlockInput!) {{ block(input: $input) {{ {RESULT} }} }}"
UNBLOCK = f"mutation ($input: BlockInput!) {{ unblock(input: $input) {{ {RESULT} }} }}"


async def call(gateway: GatewayClient, text: str, subject: str = "tester", **given: Any) -> dict[str, Any]:
    """Calls a mutation as this member. Returns its union member."""
    found: dict[str, Any]
    (found,) = (await gateway.data(text, {"input": given}, token=gateway.token(subject))).values()
    return found


async def read(gateway: GatewayClient, text: str, subject: str | None = "tester", **variables: Any) -> Any:
    token = None if subject is None else gateway.token(subject)
    return await gateway.data(text, variables, token=token)
