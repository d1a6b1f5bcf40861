"""Notifications for tests: stored as the job stores them, and read through the gateway."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

from portico.gateway.clock import SystemClock
from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document
from portico.resolvers.notifications.notifications import NOTIFICATIONS, new_notification
from portico.resolvers.notifying import NotificationSource
from portico.schema.kinds import Kind
from tests.support.harness import GatewayClient

JOB = "write-notifications"
LIST = """
query ($first: Int, $after: String, $last: Int, $before: String, $unreadOnly: Boolean! = false) {
  viewer {
    unreadNotificationCount
    notifications(first: $first, after: $after, last: $last, before: $before, unreadOnly: $unreadOnly) {
      nodes { id reason createdAt readAt nodeId actor { userId name } node { id __typename } }
      pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
    }
  }
}
"""
MARK = """
mutation ($input: MarkNotificationsReadInput!) {
  markNotificationsRead(input: $input) {
    __typename
    ... on MarkNotificationsReadPayload { notifications { id readAt } viewer { unreadNotificationCount } }
    ... on InvalidInput { path code }
    ... on NotFound { missingId }
  }
}
"""
_numbers = itertools.count(1)


async def begin(gateway: GatewayClient) -> None:
    """Lets the job begin: it stores the notifications of what happens from now on."""
    await gateway.run_jobs(JOB)


async def deliver(gateway: GatewayClient) -> int:
    """Stores the notifications of what has happened. Returns how many."""
    return await gateway.run_jobs(JOB)


async def write_news(gateway: GatewayClient) -> int:
    """As `deliver`, at the time of the system."""
    (job,) = [job for domain in gateway.domains.all for job in domain.jobs if job.name == JOB]
    return await job.run(Job.Run(gateway.db, SystemClock().now(), gateway.state.resources))


async def notify(db: Database, to: str, *by: str, reason: str = "FOLLOWED") -> list[str]:
    """Stores a notification of each of these members, one after the other. Returns their ids."""
    now, found = SystemClock().now(), []
    for name in by:
        number = next(_numbers)
        author: Any = {"id": name, "name": name.capitalize()}
        at = now + timedelta(milliseconds=number)
        notice = NotificationSource.Notice(
            reason=reason, to=to, about=("User", name), by=author, at=at, key=f"key {number}"
        )
        one = new_notification(notice, kept=timedelta(days=90))
        await NOTIFICATIONS.of(db).insert_one(one)
        found.append(Kind.encode_id("Notification", one["_id"]))
    return found


async def listed(gateway: GatewayClient, member: str, **arguments: Any) -> list[Any]:
    """Returns the notifications of a member."""
    found = await gateway.as_caller(member).data(LIST, arguments)
    nodes: list[Any] = found["viewer"]["notifications"]["nodes"]
    return nodes


async def reasons_of(gateway: GatewayClient, member: str) -> list[tuple[str, str | None]]:
    """Returns the reason of each notification of a member, and who caused it, latest first."""
    rows = await listed(gateway, member)
    return [(row["reason"], None if row["actor"] is None else row["actor"]["userId"]) for row in rows]


async def unread(gateway: GatewayClient, member: str) -> int:
    found = await gateway.as_caller(member).data(LIST)
    count: int = found["viewer"]["unreadNotificationCount"]
    return count


async def mark(gateway: GatewayClient, member: str, key: str | None = None, **which: Any) -> Any:
    given = {"which": which, "idempotencyKey": key}
    return (await gateway.as_caller(member).data(MARK, {"input": given}))["markNotificationsRead"]


async def stored(db: Database) -> list[Document]:
    """Returns all notifications, in a fixed order."""
    return await db[NOTIFICATIONS.name].find({}).sort("_id").to_list()
