"""What crashes leave in slots of hits, and what grows old in analytics. See `leftovers`."""

from __future__ import annotations

from typing import Any

from portico.resolvers.analytics.settings import AnalyticsSettings
from tests.analytics.support.hits import hit, record_hits
from tests.analytics.support.log_events import event, log
from tests.support.harness import GatewayClient
from tests.support.leftovers import LONG_AGO, Left


async def sealed_flush(gateway: GatewayClient) -> Left:
    """A flush of a gateway that has crashed before it counted."""
    await record_hits(gateway, hit())
    slots = gateway.db["analytics.hit_slots"]
    await slots.update_one({}, {"$set": {"until": LONG_AGO}, "$inc": {"seq": 1}})
    return "analytics.hit_slots", {"until": LONG_AGO, "flush": {"$ne": None}}


async def old_hit_id(gateway: GatewayClient) -> Left:
    _keep_for_a_day(gateway)
    await record_hits(gateway, hit(eventId="one"))
    await gateway.db["analytics.hit_ids"].update_one({}, {"$set": {"at": LONG_AGO}})
    return "analytics.hit_ids", {"at": LONG_AGO}


async def old_log_event(gateway: GatewayClient) -> Left:
    await log(gateway, event())
    _keep_for_a_day(gateway)
    await gateway.db["analytics.log_events"].update_one({}, {"$set": {"time": LONG_AGO}})
    return "analytics.log_events", {"time": LONG_AGO}


async def uncounted_log_event(gateway: GatewayClient) -> Left:
    """An event that no roll-up includes."""
    await log(gateway, event())
    return "analytics.log_events", {"uncounted": {"$exists": True}}


def _keep_for_a_day(gateway: GatewayClient) -> None:
    resources: Any = gateway.state.resources
    resources[AnalyticsSettings] = AnalyticsSettings(log_days=1.0, hit_id_days=1.0)
