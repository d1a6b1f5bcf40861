"""Three notifications, and the calls that mark them as read."""

from __future__ import annotations

from portico.testing.kits import Given
from portico.testing.stages import Case, Stage
from tests.notifications.support.news import notify, stored


class Marks(Stage):
    """Three unread notifications of the caller, the oldest first."""

    collections = ("notifications", "operations")
    job_seconds = 6
    least = (1, 3)
    before = [False, False, False]  # noqa: RUF012 - no test changes it
    cases = {  # noqa: RUF012 - no test changes it
        "marking two": Case(
            "markNotificationsRead",
            lambda stage: stage.marking(ids=[stage.ids[0], stage.ids[2]]),
            "MarkNotificationsReadPayload",
            [True, False, True],
        ),
        "marking the older ones": Case(
            "markNotificationsRead",
            lambda stage: stage.marking(through=stage.ids[1]),
            "MarkNotificationsReadPayload",
            [True, True, False],
        ),
    }

    async def build(self) -> None:
        self.ids = await notify(self.gateway.db, self.gateway.subject, "ann", "bob", "cem")

    def marking(self, **which: object) -> Given:
        return {"which": which}

    async def state(self) -> list[bool]:
        rows = await stored(self.gateway.db)
        return ["read_at" in row for row in sorted(rows, key=lambda row: row["created_at"])]
