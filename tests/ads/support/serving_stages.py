"""A zone with capped ads and one with a free ad, and the calls of pages."""

from __future__ import annotations

from collections import Counter

from portico.resolvers.ads.ads import ad_key
from portico.resolvers.ads.claiming import Counters
from portico.testing import Answer
from portico.testing.kits import Given
from portico.testing.stages import Case
from tests.ads.support.ads import ad, place
from tests.ads.support.serving import counted, pseudonym, record, seen, settled, view
from tests.support.restarting import Restarting

UNITS = ("banner", "poster", "open", "free", "last")
# How often each ad unit is counted, what the profiles count today, and the events of each user.
State = tuple[dict[str, int], dict[str, int], dict[str, int]]
BEFORE: State = ({}, {}, {"robin CLICK banner": 1})


def shown(user: str | None, *units: str) -> State:
    """Returns the state after these impressions."""
    per_user = [f"{user} {unit}" for unit in units if user]
    events = [f"{user} IMPRESSION {unit}" for unit in units if user]
    return dict.fromkeys(units, 1), dict.fromkeys(per_user, 1), {**BEFORE[2], **dict.fromkeys(events, 1)}


def _serve(given: Given, user: str | None, *units: str) -> Case:
    ads = [{"campaignId": "acme:spring", "adUnitId": unit} for unit in units]
    return Case("serveAds", lambda _: given, "ServedAdsPayload", shown(user, *units), {"ads": ads})


def _record(given: Given, after: State) -> Case:
    return Case("recordAdEvent", lambda _: given, "AdEventPayload", after, {"recorded": True})


CASES = {
    "an ad for a known user": _serve(view(), "robin", "banner"),
    "two ads for a new user": _serve(view("kim", limit=2), "kim", "banner", "poster"),
    "an ad without a user": _serve(view(None), None, "banner"),
    "an ad without a cap": _serve(view(zone="side"), "robin", "open"),
    "an ad without a cap or a user": _serve(view(None, "side"), None, "open"),
    "an impression elsewhere": _record(seen(), shown("robin", "banner")),
    "a click": _record(seen("CLICK"), ({}, {}, {"robin CLICK banner": 2})),
}


class Serving(Restarting):
    """A zone with two capped ads and a free one. Robin has a profile, Kim has none.

    A gateway writes some of its counters after the answer. A crashed or paused call is of a process of its own.
    """

    collections = ("ads.zones", "ads.campaigns", "ads.counters", "ads.profiles", "operations")
    job_names = ("settle-ad-claims",)
    job_seconds = 11
    next_run = 11
    before = BEFORE
    cases = CASES
    selections = {  # noqa: RUF012 - nothing changes it
        "serveAds": "... on ServedAdsPayload { ads { campaignId adUnitId } }",
        "recordAdEvent": "... on AdEventPayload { recorded }",
    }

    async def build(self) -> None:
        capped = [ad(unit=unit, ecpm=price, totalCap=50, dailyCap=9) for unit, price in (("banner", 9), ("poster", 8))]
        await place(self.gateway, *capped, ad(unit="free", ecpm=1, dailyCap=99), ad(unit="last", ecpm=0, totalCap=1))
        await place(self.gateway, ad(unit="open", dailyCap=9), zone="side")
        await record(self.gateway, seen("CLICK"))

    def token(self, _mutation: str) -> None:
        """Pages are anonymous."""

    async def ask(self, mutation: str, given: Given) -> Answer:
        answer = await super().ask(mutation, given)
        await settled(self.gateway)
        return answer

    def restart(self) -> None:
        self.gateway.state.resources[Counters] = Counters()

    async def state(self) -> State:
        """Fails if a claim is open."""
        total = {unit: await counted(self.gateway, unit=unit) for unit in UNITS}
        daily: Counter[str] = Counter()
        events: Counter[str] = Counter()
        for user in ("robin", "kim"):
            found = await self.gateway.db["ads.profiles"].find_one({"_id": pseudonym(self.gateway, user)}) or {}
            daily.update(
                {f"{user} {unit}": found.get("shown", {}).get(ad_key("acme:spring", unit), 0) for unit in UNITS}
            )
            events.update(f"{user} {one['kind']} {one['ad_unit_id']}" for one in found.get("events", []))
        return {unit: times for unit, times in total.items() if times}, dict(+daily), dict(events)
