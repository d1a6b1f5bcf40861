"""Creates members."""

from __future__ import annotations

from portico.testing.kits import Known
from tests.social.support.social import block, circle, join, user_id
from tests.support.harness import GatewayClient


async def seed(gateway: GatewayClient, _known: Known) -> Known:
    """Creates members: the caller with circles, followers and a block, and one who has blocked the caller."""
    me = gateway.subject
    await join(gateway.db, me, "ada", "bo", "cy", about="Somebody.", interests=["jazz", "chess"])
    for name in ("a.b", "$x"):
        await circle(gateway.db, me, "ada", "bo", name=name)
    await circle(gateway.db, "ada", me, "bo")
    await block(gateway.db, me, "bo")
    await block(gateway.db, "cy", me)
    return {"id": [user_id(subject) for subject in (me, "ada", "bo", "cy")]}
