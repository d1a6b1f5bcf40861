"""Notifications: what members are notified of, by all served domains."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from portico.resolvers.attachments import Hosts
from portico.resolvers.declarations import Domain, Job, Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.notifications import checks
from portico.resolvers.notifications.delivery import Delivery
from portico.resolvers.notifications.notifications import EVENTS, NOTIFICATIONS
from portico.resolvers.notifications.position import POSITIONS
from portico.resolvers.notifications.settings import NotificationSettings
from portico.resolvers.notifying import Notifications
from portico.resolvers.problems import Invariant
from portico.schema.notifications import notifications as schema

from . import demo

_FOLDER = Path(__file__).parent


@asynccontextmanager
async def _delivery(resources: Resources, _db: Database) -> AsyncIterator[Delivery]:
    sources, kept = resources.of(Notifications).sources, resources.of(NotificationSettings).kept
    async with aclosing(Delivery(sources, resources.of(Hosts), kept)) as delivery:
        yield delivery


async def _write_notifications(run: Job.Run) -> int:
    return await run.resources.of(Delivery).run(run.db, now=run.now, patience=run.patience)


DOMAIN = Domain(
    name="notifications",
    about="What members are notified of, and what they have read of it.",
    collections=(NOTIFICATIONS, POSITIONS),
    settings=NotificationSettings,
    services=(Service(Delivery, _delivery),),
    jobs=(Job("write-notifications", _write_notifications, waits=True),),
    events=EVENTS,
    invariants=(
        Invariant(
            "Every notification is there once, is either read or unread, and is about what another member has done.",
            checks.find_wrong_notifications,
        ),
    ),
    kinds=(schema.NOTIFICATION,),
    pages=(schema.PAGES,),
    mutations=(schema.NotificationMutation,),
    subscriptions=(schema.NotificationSubscription,),
    extensions={"Viewer": (schema.NotificationViewer,)},
    demo=demo.load,
    examples=(("Notifications", _FOLDER / "examples.graphql"),),
)
