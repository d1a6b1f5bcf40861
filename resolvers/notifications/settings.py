"""The settings of notifications."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from portico.resolvers.configuration import setting


@dataclass(frozen=True)
class NotificationSettings:
    notification_days: float = setting(
        90.0, "Days until a notification is deleted. A change of the setting applies to new notifications."
    )

    @property
    def kept(self) -> timedelta:
        return timedelta(days=self.notification_days)
