"""Two ways to choose and serve ads, for `bench.ads`: GraphQL operations, and PyMongo by hand."""

import asyncio
import math
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import orjson
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.gateway.clock import SystemClock
from portico.gateway.live import Counts, Hub
from portico.gateway.operations.execution import Executor
from portico.gateway.operations.json_text import encode
from portico.gateway.operations.responses import Response
from portico.resolvers.ads.ads import ad_key
from portico.resolvers.ads.claiming import Counters
from portico.resolvers.ads.counters import COUNTERS
from portico.resolvers.ads.profiles import PROFILES
from portico.resolvers.ads.zones import ZONES, zone_key
from portico.resolvers.documents import Database, Document
from portico.resolvers.served import Served
from portico.schema.context import Context

SITE = "bench"
KEYWORDS = ["word 1", "word 7", "word 70"]
_AD = "campaignId adUnitId keywords"
_CHOOSE = f"""
query ($zone: String!, $user: String!, $keywords: [String!]!) {{
  chooseAds(siteId: "{SITE}", zoneId: $zone, userId: $user, keywords: $keywords) {{ ads {{ {_AD} }} }}
}}
"""
_SERVE = f"""
mutation ($zone: String!, $user: String!, $keywords: [String!]!) {{
  serveAds(input: {{ siteId: "{SITE}", zoneId: $zone, userId: $user, keywords: $keywords }}) {{
    __typename ... on ServedAdsPayload {{ ads {{ {_AD} }} }}
  }}
}}
"""


class Way(Protocol):
    """A way to choose and to serve one ad. Both return the number of ads: 1, or 0 if none may be shown."""

    name: str

    async def place(self, zone: str, ads: list[Document]) -> None: ...

    async def choose(self, zone: str, user: str) -> int: ...

    async def serve(self, zone: str, user: str) -> int: ...

    async def counted(self, ads: list[Document]) -> list[int]:
        """Return the impressions that each ad has in all."""

    async def seen(self) -> int:
        """Return the impressions of all users today."""


class Portico:
    """The operations of the gateway, from their text to the bytes of the answer, without HTTP."""

    name = "portico"

    def __init__(self, db: Database, executor: Executor, served: Served) -> None:
        self._db = db
        self._executor = executor
        self._served = served

    async def place(self, zone: str, ads: list[Document]) -> None:
        """Store the zone as so many calls of `placeAd` would."""
        placed = [{**ad, "shown": 0} for ad in ads]
        key = zone_key(SITE, zone)
        new = {"_id": key, "site_id": SITE, "zone_id": zone, "nonce": random.random(), "ads": placed}
        await self._db[ZONES.name].insert_one(new)

    async def choose(self, zone: str, user: str) -> int:
        return await self._ask(_CHOOSE, zone, user, "chooseAds")

    async def serve(self, zone: str, user: str) -> int:
        return await self._ask(_SERVE, zone, user, "serveAds")

    async def _ask(self, text: str, zone: str, user: str, field: str) -> int:
        clock = SystemClock()
        context = Context(
            db=self._db,
            reading=self._db,
            caller=None,
            started=clock.now(),
            clock=clock.now,
            request_id="bench",
            selections={},
            served=self._served,
            live=Hub(self._db, (), Counts(), max_waiting=1),
            keys_kept=timedelta(days=1),
        )
        given = {"zone": zone, "user": user, "keywords": KEYWORDS}
        response = await self._executor.execute(text, variables=given, name=None, context=context)
        assert isinstance(response, Response), text
        answer = orjson.loads(encode(response.payload))
        if "errors" in answer:
            raise RuntimeError(str(answer["errors"]))
        return len(answer["data"][field]["ads"])

    async def counted(self, ads: list[Document]) -> list[int]:
        await self._served.resources.of(Counters).close()
        found = {one["_id"]: one async for one in self._db[COUNTERS.name].find({})}
        counters = [found[key] for ad in ads if (key := ad_key(ad["campaign_id"], ad["ad_unit_id"])) in found]
        if any(one["claims"] for one in counters):
            raise RuntimeError("an impression is still in flight")
        return [one["shown"] for one in counters]

    async def seen(self) -> int:
        return await _seen(self._db, PROFILES.name)


class ByHand:
    """What a careful program without Portico does.

    It reads the zone and the profile at once, and chooses in Python. To serve, it counts the impression in the ad's
    counter if there is room, then in the profile if the user may see it, and takes the first back if the second fails.
    If such a program crashes between these two steps, an impression is lost.
    """

    name = "by hand"

    def __init__(self, db: Database) -> None:
        self._db = db

    async def place(self, zone: str, ads: list[Document]) -> None:
        keyed = [{**ad, "key": ad_key(ad["campaign_id"], ad["ad_unit_id"])} for ad in ads]
        await self._db["hand.zones"].insert_one({"_id": zone, "ads": keyed})
        capped = [{"_id": ad["key"], "shown": 0} for ad in keyed if ad["total_cap"] is not None]
        if capped:
            await self._db["hand.counters"].insert_many(capped)

    async def choose(self, zone: str, user: str) -> int:
        ads, shown = await self._read(zone, user)
        best = self._best(ads, shown, set())
        return len(orjson.loads(orjson.dumps({"ads": [] if best is None else [_shown(best)]}))["ads"])

    async def _read(self, zone: str, user: str) -> tuple[list[Document], Mapping[str, int]]:
        found, profile = await asyncio.gather(
            self._db["hand.zones"].find_one({"_id": zone}),
            self._db["hand.profiles"].find_one({"_id": user, "day": _today()}, {"shown": 1}),
        )
        assert found is not None
        return found["ads"], {} if profile is None else profile["shown"]

    @staticmethod
    def _best(ads: list[Document], shown: Mapping[str, int], refused: set[str]) -> Document | None:
        wanted = set(KEYWORDS)
        able = [ad for ad in ads if ad["key"] not in refused and shown.get(ad["key"], 0) < ad["daily_cap"]]
        return max(
            able,
            key=lambda ad: (ad["ecpm"] * math.log(1.1 + len(wanted.intersection(ad["keywords"]))), random.random()),
            default=None,
        )

    async def serve(self, zone: str, user: str) -> int:
        refused: set[str] = set()
        while True:
            ads, shown = await self._read(zone, user)
            best = self._best(ads, shown, refused)
            if best is None:
                return 0
            cap = best["total_cap"]
            if cap is not None and not await self._count(best["key"], cap):
                refused.add(best["key"])
            elif await self._record(zone, user, best):
                return len(orjson.loads(orjson.dumps({"ads": [_shown(best)]}))["ads"])
            elif cap is not None:
                await self._db["hand.counters"].update_one({"_id": best["key"]}, {"$inc": {"shown": -1}})

    async def _count(self, key: str, cap: int) -> bool:
        counter = {"_id": key, "shown": {"$lt": cap}}
        return (await self._db["hand.counters"].update_one(counter, {"$inc": {"shown": 1}})).matched_count == 1

    async def _record(self, zone: str, user: str, ad: Document) -> bool:
        field = f"shown.{ad['key']}"
        event = {"kind": "IMPRESSION", "at": datetime.now(UTC), "zone": zone, **_shown(ad)}
        guard = {"_id": user, "day": _today(), field: {"$not": {"$gte": ad["daily_cap"]}}}
        update = {"$inc": {field: 1}, "$push": {"events": {"$each": [event], "$slice": -200}}}
        profiles = self._db["hand.profiles"]
        try:
            await profiles.find_one_and_update(
                guard, update, {"_id": 1}, upsert=True, return_document=ReturnDocument.AFTER
            )
        except DuplicateKeyError:
            return False
        return True

    async def counted(self, ads: list[Document]) -> list[int]:
        keys = [ad_key(ad["campaign_id"], ad["ad_unit_id"]) for ad in ads]
        return [one["shown"] async for one in self._db["hand.counters"].find({"_id": {"$in": keys}})]

    async def seen(self) -> int:
        return await _seen(self._db, "hand.profiles")


def _shown(ad: Document) -> dict[str, Any]:
    return {name: ad[name] for name in ("campaign_id", "ad_unit_id", "ecpm", "keywords")}


def _today() -> datetime:
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)


async def _seen(db: Database, collection: str) -> int:
    each: Document = {"$sum": {"$map": {"input": {"$objectToArray": "$shown"}, "in": "$$this.v"}}}
    stages = [{"$group": {"_id": None, "n": {"$sum": each}}}]
    found = await (await db[collection].aggregate(stages)).to_list()
    return int(found[0]["n"]) if found else 0
