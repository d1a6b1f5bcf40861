"""What recorded sessions leave to the jobs. See `leftovers`."""

from __future__ import annotations

from portico.resolvers.documents import Document
from tests.analytics.support.session_cases import recorded, session
from tests.support.harness import GatewayClient
from tests.support.leftovers import LONG_AGO


async def pending_session(gateway: GatewayClient) -> tuple[str, Document]:
    """A session that no roll-up includes."""
    await recorded(gateway, session())
    await gateway.db["analytics.sessions"].update_one({}, {"$set": {"pending_since": LONG_AGO}})
    return "analytics.sessions", {"pending_since": LONG_AGO}
