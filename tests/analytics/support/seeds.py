"""Records traffic."""

from __future__ import annotations

from datetime import timedelta

from portico.schema.scalars import format_instant
from portico.testing.kits import Known
from tests.analytics.support.log_events import NOON, event, log, logged
from tests.support.harness import GatewayClient


async def seed(gateway: GatewayClient, _known: Known) -> Known:
    """Records requests of two pages."""
    await log(gateway, *(event(f"/page-{number % 2}", number, user=f"user-{number}") for number in range(6)))
    (first, *_) = (await logged(gateway))["nodes"]
    times = [format_instant(NOON + timedelta(days=day)) for day in (-1, 0, 1)]
    return {"id": [first["id"]], "from": times[:2], "to": times[1:]}
