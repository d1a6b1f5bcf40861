"""The demo's traffic: the visits of a month to the pages of the shop and of its blog, up to now.

Each day has the visits that its date gives, whenever the demo is started. All events have ids, so starting it again
adds only what has happened since.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import orjson

from portico.gateway.demo.loading import Demo
from portico.resolvers.analytics.hit_writing import HitWriter, checked_hit
from portico.resolvers.analytics.log_recording import limit_of
from portico.resolvers.analytics.session_recording import record_sessions, session_of
from portico.resolvers.analytics.session_roll_ups import Done, roll_up
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.schema.scalars import format_instant

SITE = "shop"
DAYS = 30
_VISITS = range(8, 16)
_VIEWS = range(1, 6)
# Seconds that somebody reads a page.
_READ_SECONDS = range(4, 240)
PAGES = {
    "/": 8,
    "/jazz": 6,
    "/modal-jazz": 3,
    "/soul": 4,
    "/folk": 2,
    "/blog": 3,
    "/blog/how-we-grade-records": 2,
    "/blog/packing-a-record": 1,
}
# Most visitors have no account.
_USERS = ("demo", "mara", "jonas", None, None, None)
_REFERRERS = ("https://search.example/", "https://news.example/vinyl", None)
_PROGRAMS = ("Firefox/133.0", "Chrome/131.0", "Safari/18.1")
_FOUND, _MISSING = 200, 404


@dataclass(frozen=True)
class View:
    """A page that a visitor has looked at, for so many seconds."""

    time: datetime
    path: str
    seconds: int


@dataclass(frozen=True)
class Visit:
    """What one visitor has looked at. `id` is the same whenever the visit is generated."""

    id: str
    host: str
    user: str | None
    referrer: str | None
    program: str
    views: list[View]

    @property
    def seconds(self) -> int:
        return sum(view.seconds for view in self.views)


def visits_of(day: date) -> Iterator[Visit]:
    """Yields the visits that began on a day."""
    rng = random.Random(f"{day}")  # noqa: S311 - the same for each start of the demo
    midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - stored times are naive UTC
    for number in range(rng.choice(_VISITS)):
        time = midnight + timedelta(seconds=rng.randrange(24 * 3600))
        views: list[View] = []
        for _ in range(rng.choice(_VIEWS)):
            (path,) = rng.choices(list(PAGES), list(PAGES.values()))
            views.append(View(time, path, rng.choice(_READ_SECONDS)))
            time += timedelta(seconds=views[-1].seconds)
        host, user = f"198.51.100.{rng.randrange(1, 40)}", rng.choice(_USERS)
        yield Visit(f"demo/{day}/{number}", host, user, rng.choice(_REFERRERS), rng.choice(_PROGRAMS), views)


def visits_until(now: datetime) -> list[Visit]:
    """Returns the visits of the last 30 days that have ended."""
    days = [(now - timedelta(days=before)).date() for before in range(DAYS, -1, -1)]
    found = (visit for day in days for visit in visits_of(day))
    return [visit for visit in found if visit.views[0].time + timedelta(seconds=visit.seconds) <= now]


async def load(demo: Demo) -> None:
    """Loads the visits as log events, as hits, and those of users as sessions, and rolls these up. Idempotent."""
    visits = visits_until(demo.now)
    await _load_log(demo, visits)
    await _count_hits(demo, visits)
    await _record_sessions(demo, visits)


async def _load_log(demo: Demo, visits: list[Visit]) -> None:
    kept = limit_of(demo.now + timedelta(hours=1), demo.resources.of(AnalyticsSettings).log_days)
    events = [event for visit in visits for time, event in _events(visit) if kept is None or time >= kept]
    file = demo.folder / "access.jsonl"
    file.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))
    await demo.load_files("logs", [file])


async def _count_hits(demo: Demo, visits: list[Visit]) -> None:
    hits = [
        checked_hit(event_id=f"{visit.id}/{number}", site=SITE, page=view.path, at=view.time)
        for visit in visits
        for number, view in enumerate(visit.views)
    ]
    await demo.resources.of(HitWriter).record(demo.db, hits, now=demo.now)
    demo.say(f"hits: {len(hits):,} of {len(PAGES)} pages")


async def _record_sessions(demo: Demo, visits: list[Visit]) -> None:
    sessions = [
        session_of(event_id=visit.id, user_id=visit.user, at=visit.views[0].time, length=visit.seconds)
        for visit in visits
        if visit.user is not None
    ]
    await record_sessions(demo.db, sessions, now=demo.now)
    await roll_up(demo.db, Done())
    demo.say(f"sessions: {len(sessions):,} of {len(set(_USERS)) - 1} users")


def _events(visit: Visit) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """Yields the time and the record of each request of a visit. The first page has the referrer of the visit."""
    for number, view in enumerate(visit.views):
        yield (
            view.time,
            {
                "eventId": f"{visit.id}/{number}",
                "host": visit.host,
                "user": visit.user,
                "time": format_instant(view.time),
                "path": view.path,
                "status": _MISSING if view.seconds == _READ_SECONDS.start else _FOUND,
                "responseSize": 2_000 + 13 * len(view.path),
                "referrer": visit.referrer if number == 0 else f"https://shop.example{visit.views[number - 1].path}",
                "userAgent": visit.program,
            },
        )
