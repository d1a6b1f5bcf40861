"""Loaders of notifications."""

from __future__ import annotations

from portico.loaders.batching import BatchRead
from portico.loaders.declaring import each
from portico.resolvers.documents import Database, Projection
from portico.resolvers.notifications import notifications
from portico.resolvers.notifications.notifications import NotificationDocument


def by_key(db: Database, projection: Projection | None) -> BatchRead[str, NotificationDocument]:
    """The notifications with these keys."""
    return lambda keys: notifications.find_by_keys(db, keys, projection)


unread_counts = each(notifications.count_unread)
