"""The demo's notifications: of what the demo's members have done."""

from __future__ import annotations

from portico.gateway.demo.loading import Demo
from portico.resolvers.attachments import Hosts
from portico.resolvers.notifications import backlogs
from portico.resolvers.notifications.settings import NotificationSettings
from portico.resolvers.notifications.storing import Storing
from portico.resolvers.notifying import Notifications


async def load(demo: Demo) -> None:
    kept = demo.resources.of(NotificationSettings).kept
    storing = Storing(demo.db, demo.resources.of(Hosts), demo.now, kept)
    done = await backlogs.read_all(storing, demo.resources.of(Notifications).sources, demo.now - kept)
    demo.say(f"notifications: {done:,} of what others have done")
