"""Reads stacks through the schema."""

from __future__ import annotations

from typing import Any

from tests.game.support.stacks import bag, goods, keyed
from tests.support.harness import GatewayClient

LIST = """query ($owner: String!, $name: String! = "bag", $category: String, $prefix: String,
    $sort: StackSort! = CATEGORY, $first: Int, $after: String) {
  inventory(owner: $owner, name: $name) {
    owner name
    stacks(category: $category, namePrefix: $prefix, sort: $sort, first: $first, after: $after) {
      nodes { category itemId name quantity } pageInfo { hasNextPage endCursor } } } }"""


async def items(gateway: GatewayClient, subject: str | None = "mara", owner: str = "mara", **given: Any) -> list[str]:
    """The item ids of a list, as this subject sees it."""
    token = None if subject is None else gateway.token(subject, [])
    data = await gateway.data(LIST, {"owner": owner, **given}, token=token)
    return [stack["itemId"] for stack in data["inventory"]["stacks"]["nodes"]]


def granted(item: str, quantity: int = 1, **given: Any) -> dict[str, Any]:
    """A valid `GrantInput` for Mara's bag."""
    return keyed(to=bag("mara"), name=item.title(), **goods(item, quantity), **given)
