"""The plans of recorded commands."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.explaining import Plan, explain
from tests.support.harness import GatewayClient


async def plans_of(gateway: GatewayClient) -> list[Plan]:
    """Returns the plans of the commands that the gateway has sent. Asserts that none of them scans a collection."""
    plans = [plan for command in list(gateway.commands.sent) for plan in await explain(gateway.db, command)]
    assert not any(plan.scans_collection for plan in plans)
    return plans


def documents_examined(plans: Iterable[Plan]) -> int:
    return sum(plan.documents_examined for plan in plans)


def keys_examined(plans: Iterable[Plan]) -> int:
    return sum(plan.keys_examined for plan in plans)
