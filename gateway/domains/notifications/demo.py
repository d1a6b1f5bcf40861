"""The demo's notifications: of what the demo's members have done."""

from __future__ import annotations

from datetime import timedelta

from portico.gateway.demo.loading import Demo
from portico.resolvers.attachments import Hosts
from portico.resolvers.notifications import backlogs
from portico.resolvers.notifications.storing import Storing
from portico.resolvers.notifying import Notifications

# The past of the demo's members is longer than notifications are usually kept.
_PAST = timedelta(days=3_650)


async def load(demo: Demo) -> None:
    storing = Storing(demo.db, demo.resources.of(Hosts), demo.now, _PAST)
    done = await backlogs.read_all(storing, demo.resources.of(Notifications).sources, demo.now - _PAST)
    demo.say(f"notifications: {done:,} of what others have done")
