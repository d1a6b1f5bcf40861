"""An import that is killed before any of its commands can be run again: the next run stores what is missing, once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from pymongo.errors import NetworkTimeout

from portico.gateway.clock import SystemClock
from portico.gateway.imports import runs
from portico.gateway.imports.runs import BadRecord, Import
from portico.gateway.mongo.faults import FaultyDatabase
from portico.resolvers.ads.images import ImageRules
from portico.resolvers.ads.placement_imports import CampaignRecord, import_campaign
from portico.resolvers.comments.discussions import discussion_id
from portico.resolvers.documents import Database
from portico.schema.kinds import Kind
from tests.catalog.support.catalog import add_categories, add_products, product
from tests.comments.support.discussions import ON_EACH, count, everything
from tests.content.support.photos import picture
from tests.support.databases import delete_documents
from tests.support.domains import IMPORTERS
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs, some_stops
from tests.support.interruptions import interrupted, stopping

Line = dict[str, Any]


@dataclass(frozen=True)
class Records:
    """Records, and records that refer to them in a second file. Then the same records with corrections."""

    kind: str
    files: tuple[list[Line], list[Line]]
    corrected: tuple[list[Line], list[Line]]
    # The expected number of documents in each collection.
    held: dict[str, int]


class Importing:
    """A gateway, and imports into its database."""

    def __init__(self, gateway: GatewayClient, clock: SettableClock, folder: Path) -> None:
        self.gateway = gateway
        self.clock = clock
        self.folder = folder

    async def run(self, db: Database, kind: str, *files: list[Line]) -> tuple[Counter[str], list[str]]:
        """Return the counts, and the reasons of the refused records."""
        paths = [self.folder / f"{number}.jsonl" for number in range(len(files))]
        for path, lines in zip(paths, files, strict=True):
            path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        bad: list[BadRecord] = []
        work = Import(db, IMPORTERS[kind], self.clock, bad.append, lambda _: None, self.gateway.state.resources)
        summary = await work.run(paths)
        return summary.counts, [one.reason for one in bad]

    async def kill(self, records: Records, stop: int) -> bool:
        """Import, and stop after this number of changes. Return whether the import was stopped."""
        faulty, database = FaultyDatabase.around(self.gateway.db, stop)
        # Some importers store several records at once.
        with stopping():
            await self.run(database, records.kind, *records.files)
        return faulty.has_crashed

    async def jobs(self) -> None:
        for _ in range(2):
            self.clock.advance(seconds=40)
            await run_jobs(self.gateway, self.clock)

    async def complete(self, records: Records) -> None:
        """Import the corrected records. Assert that another import changes nothing."""
        found, bad = await self.run(self.gateway.db, records.kind, *records.corrected)
        assert (set(found) <= {"created", "changed", "unchanged"}, bad) == (True, [])
        again, _ = await self.run(self.gateway.db, records.kind, *records.corrected)
        assert again == Counter(unchanged=sum(map(len, records.corrected)))
        for name, number in records.held.items():
            assert await self.gateway.db[name].count_documents({}) == number, name
        await assert_invariants(self.gateway)


@pytest.fixture
def importing(gateway: GatewayClient, clock: SettableClock, tmp_path: Path) -> Importing:
    (tmp_path / "one.png").write_bytes(picture())
    (tmp_path / "two.png").write_bytes(picture(20, 10))
    return Importing(gateway, clock, tmp_path)


def comment(name: str, parent: str | None, text: str, storage: str) -> Line:
    return {
        "product": "p",
        "id": name,
        "parent": parent,
        "author": "alienth",
        "posted": "2011-12-08T03:02:00Z",
        "text": text,
        "storage": storage,
    }


def comments(storage: str) -> Records:
    def files(*texts: str) -> tuple[list[Line], list[Line]]:
        return [comment("p0", None, texts[0], storage)], [comment("r0", "p0", texts[1], storage)]

    return Records("comments", files("Top.", "Reply."), files("Top, corrected.", "Reply, corrected."), {})


def category(slug: str, parent: str | None, name: str) -> Line:
    return {"slug": slug, "name": name, "parent": parent}


def post(slug: str, text: str) -> Line:
    return {"slug": slug, "title": "Title", "text": text, "publishOn": "2020-01-02T03:04:05.000Z"}


def photo(slug: str, title: str, file: str) -> Line:
    return {"slug": slug, "title": title, "file": file}


def wall_post(key: str, text: str) -> Line:
    return {"id": key, "author": "ann", "text": text, "date": "2020-01-02"}


def room(key: str, name: str, **exits: str) -> Line:
    return {"id": key, "name": name, "description": "A room.", "exits": exits}


def placed(zone: str, ecpm: int, **fields: Any) -> Line:
    return {"siteId": "shop.example", "zoneId": zone, "adUnitId": "banner", "ecpm": ecpm, **fields}


def campaign(key: str, *ads: Line) -> Line:
    return {"campaignId": f"acme:{key}", "ads": list(ads)}


def logged(*seconds: int) -> list[Line]:
    return [{"host": "192.0.2.1", "time": f"2026-03-09T12:00:0{one}Z", "path": "/"} for one in seconds]


def event(day: int) -> Line:
    """A click on an ad of the campaign that `rebuild` places."""
    return {
        "userId": "robin",
        "kind": "CLICK",
        "at": f"2020-01-0{day}",
        "campaignId": "acme:there",
        "adUnitId": "banner",
        "siteId": "shop.example",
        "zoneId": "front",
    }


THING = {"id": "lamp", "name": "lamp", "type": "LIGHT", "cost": 2, "room": "a"}
SHOP = {"id": "shop", "keeper": "Ann", "room": "b", "items": ["lamp"], "asks": 1, "pays": 1}
ONE, TWO = {"sku": "one", "title": "One"}, {"sku": "two", "title": "Two"}
RECORDS = {
    "categories": Records(
        "categories",
        ([category("music", None, "Music")], [category("rock", "music", "Rock"), category("soul", "rock", "Soul")]),
        ([category("music", None, "All music")], [category("soul", "music", "Soul"), category("rock", "soul", "Rock")]),
        {"categories": 5},
    ),
    "products": Records(
        "products",
        ([product(**ONE, categories=["jazz"])], [product(**TWO, categories=["jazz", "blues"])]),
        ([product(**ONE, categories=["blues"])], [product(**TWO, categories=["blues"])]),
        {"products": 2},
    ),
    "posts": Records(
        "posts",
        ([post("first", "Text.")], [post("second", "Text.")]),
        ([post("first", "Corrected.")], [post("second", "Corrected.")]),
        {"cms.nodes": 3},
    ),
    "photos": Records(
        "photos",
        ([photo("one", "One", "one.png")], []),
        ([photo("one", "Corrected", "two.png")], []),
        {"cms.nodes": 2},
    ),
    "wall-posts": Records(
        "wall-posts",
        ([wall_post("first", "Text.")], [wall_post("second", "Text.")]),
        ([wall_post("first", "Corrected.")], [wall_post("second", "Corrected.")]),
        {"social.posts": 2, "social.members": 1},
    ),
    "world": Records(
        "world",
        ([SHOP, room("a", "First", e="b")], [THING, room("b", "Second", w="a")]),
        ([{**SHOP, "keeper": "Bea"}, room("a", "First, corrected", e="b")], [THING, room("b", "Corrected", w="b")]),
        {"game.locations": 2, "game.blueprints": 2},
    ),
    "campaigns": Records(
        "campaigns",
        ([campaign("one", placed("front", 1))], [campaign("two", placed("front", 2), placed("back", 2))]),
        ([campaign("one", placed("front", 3))], [{"campaignId": "acme:two", "isActive": False}]),
        {"ads.campaigns": 3},
    ),
    "ads": Records(
        "ads",
        ([placed("front", 1, campaignId="acme:one")], [placed("front", 2, campaignId="acme:two")]),
        ([placed("front", 3, campaignId="acme:one")], [placed("front", 4, campaignId="acme:two")]),
        {"ads.campaigns": 3, "ads.zones": 1},
    ),
    "ad-events": Records(
        "ad-events", ([event(2)], [event(1)]), ([event(2)], [event(1), event(3)]), {"ads.profiles": 1}
    ),
    "logs": Records("logs", (logged(1, 2), logged(3)), (logged(1, 2, 4), logged(3, 5)), {"analytics.log_events": 5}),
}


async def rebuild(gateway: GatewayClient) -> None:
    """Delete what an earlier import left, and create what the records refer to."""
    await delete_documents(gateway.db)
    await add_categories(gateway.db, [{"slug": "jazz", "name": "Jazz"}, {"slug": "blues", "name": "Blues"}])
    rules = gateway.state.resources.of(ImageRules)
    await import_campaign(gateway.db, CampaignRecord("acme:there", True, ()), now=SystemClock().now(), rules=rules)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", RECORDS)
async def test_a_killed_import_can_be_completed(importing: Importing, kind: str) -> None:
    records = RECORDS[kind]
    for stop in some_stops(2):
        await rebuild(importing.gateway)
        was_killed = await importing.kill(records, stop)

        await importing.jobs()
        await importing.complete(records)

        if not was_killed:
            assert stop > 0, "nothing was killed"
            break


@ON_EACH
@pytest.mark.sample(3)
@pytest.mark.parametrize("is_settled_meanwhile", [False, True])
async def test_a_killed_import_of_comments_can_be_completed(
    importing: Importing, storage: str, is_settled_meanwhile: bool
) -> None:
    """This holds even after the jobs have settled the interrupted posts."""
    gateway, records = importing.gateway, comments(storage)
    for stop in some_stops(2):
        await rebuild(gateway)
        await add_products(gateway.db, [product(sku="p")])
        was_killed = await importing.kill(records, stop)
        if is_settled_meanwhile:
            await importing.jobs()

        found, bad = await importing.run(gateway.db, "comments", *records.files)
        assert (sum(found.values()), bad) == (2, []), stop
        await importing.jobs()
        await importing.complete(records)

        discussion = Kind.encode_id("Discussion", discussion_id("Product", "p"))
        rows = [(row["text"], row["depth"]) for row in await everything(gateway, discussion)]
        assert rows == [("Top, corrected.", 0), ("Reply, corrected.", 1)], stop
        assert await count(gateway, discussion) == 2, stop
        if not was_killed:
            assert stop > 0, "nothing was killed"
            break


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", RECORDS)
async def test_an_import_goes_on_when_a_command_has_timed_out(
    importing: Importing, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits, the jobs of a gateway settle what the first try of the batch has left."""
    monkeypatch.setattr(runs, "pause", lambda _seconds: importing.jobs())
    records = RECORDS[kind]
    for stop in some_stops(2):
        await rebuild(importing.gateway)
        lost: list[NetworkTimeout] = []

        async def time_out(lost: list[NetworkTimeout] = lost) -> None:
            lost.append(NetworkTimeout("the server is slow"))
            raise lost[0]

        database = interrupted(importing.gateway.db, None, None, time_out, skip=stop)
        found, bad = await importing.run(database, kind, *records.files)

        assert (sum(found.values()), bad) == (sum(map(len, records.files)), []), stop
        await importing.complete(records)
        if not lost:
            assert stop > 0, "no command timed out"
            break
