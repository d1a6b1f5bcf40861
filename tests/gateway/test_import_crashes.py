"""An import that is killed before any of its commands can be run again: the next run stores what is missing, once."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import NetworkTimeout

from portico.gateway.clock import SystemClock
from portico.gateway.imports import runs
from portico.gateway.mongo.faults import FaultyDatabase
from portico.resolvers.ads.images import ImageRules
from portico.resolvers.ads.placement_imports import CampaignRecord, import_campaign
from portico.resolvers.comments import imports as comment_imports
from portico.resolvers.comments.discussions import discussion_id
from portico.resolvers.content import imports as content_imports
from portico.resolvers.documents import Database
from portico.resolvers.social import post_imports
from portico.schema.kinds import Kind
from tests.catalog.support.catalog import add_categories, add_products, product
from tests.comments.support.discussions import ON_EACH, count, everything
from tests.content.support.photos import picture
from tests.support.databases import delete_documents
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, some_stops
from tests.support.importing import Imported, category, lines, run, write
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

    async def run(self, db: Database, kind: str, *files: list[Line]) -> Imported:
        paths = [write(self.folder / f"{number}.jsonl", lines(given)) for number, given in enumerate(files)]
        return await run(db, kind, *paths, resources=self.gateway.state.resources, clock=self.clock)

    async def kill(self, records: Records, stop: int) -> bool:
        """Import, and stop after this number of changes. Return whether the import was stopped."""
        faulty, database = FaultyDatabase.around(self.gateway.db, stop)
        # Some importers store several records at once.
        with stopping():
            await self.run(database, records.kind, *records.files)
        return faulty.has_crashed

    async def jobs(self) -> None:
        for _ in range(2):
            await self.gateway.run_jobs(seconds=40)

    async def complete(self, records: Records) -> None:
        """Import the corrected records. Assert that another import changes nothing."""
        done = await self.run(self.gateway.db, records.kind, *records.corrected)
        assert (done.counts.keys() <= {"created", "changed", "unchanged"}, done.bad) == (True, [])
        again = await self.run(self.gateway.db, records.kind, *records.corrected)
        assert again.counts == {"unchanged": sum(map(len, records.corrected))}
        for name, number in records.held.items():
            assert await self.gateway.db[name].count_documents({}) == number, name
        await assert_invariants(self.gateway)


@pytest.fixture
def importing(gateway: GatewayClient, clock: SettableClock, tmp_path: Path) -> Importing:
    (tmp_path / "one.png").write_bytes(picture())
    (tmp_path / "two.png").write_bytes(picture(20, 10))
    return Importing(gateway, clock, tmp_path)


def comments(storage: str) -> Records:
    posted = {"product": "p", "author": "alienth", "posted": "2011-12-08T03:02:00Z", "storage": storage}

    def files(top: str, reply: str) -> tuple[list[Line], list[Line]]:
        return [posted | {"id": "p0", "parent": None, "text": top}], [
            posted | {"id": "r0", "parent": "p0", "text": reply}
        ]

    return Records("comments", files("Top.", "Reply."), files("Top, corrected.", "Reply, corrected."), {})


def post(slug: str, text: str) -> Line:
    return {"slug": slug, "title": "Title", "text": text, "publishOn": "2020-01-02T03:04:05.000Z"}


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
    click = {"userId": "robin", "kind": "CLICK", "at": f"2020-01-0{day}", "campaignId": "acme:there"}
    return click | {"adUnitId": "banner", "siteId": "shop.example", "zoneId": "front"}


THING = {"id": "lamp", "name": "lamp", "type": "LIGHT", "cost": 2, "room": "a"}
SHOP = {"id": "shop", "keeper": "Ann", "room": "b", "items": ["lamp"], "asks": 1, "pays": 1}
ONE, TWO = {"sku": "one", "title": "One"}, {"sku": "two", "title": "Two"}
RECORDS = {
    "categories": Records(
        "categories",
        ([category("music", "Music")], [category("rock", "Rock", "music"), category("soul", "Soul", "rock")]),
        ([category("music", "All music")], [category("soul", "Soul", "music"), category("rock", "Rock", "soul")]),
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
        ([{"slug": "one", "title": "One", "file": "one.png"}], []),
        ([{"slug": "one", "title": "Corrected", "file": "two.png"}], []),
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
    await add_categories(gateway.db, [category("jazz", "Jazz"), category("blues", "Blues")])
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


class FastClock(SettableClock):
    """Whenever it is read, a second has passed."""

    def now(self) -> datetime:
        self.advance(seconds=1)
        return super().now()


async def test_a_killed_import_of_products_can_be_repeated_at_once(
    importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job runs meanwhile. While the killed import may still go on, the next one waits for a few seconds."""
    monkeypatch.setattr(runs, "PAUSES", (0.01,) * len(runs.PAUSES))
    later = Importing(importing.gateway, FastClock(), importing.folder)
    named = [product(sku=sku, slug=f"{sku}-slug", categories=["jazz"]) for sku in ("one", "two", "three")]
    records = Records("products", (named, []), (named[1:], named[:1]), {"products": 3, "product_slugs": 3})
    for stop in some_stops(2):
        await rebuild(importing.gateway)
        was_killed = await importing.kill(records, stop)

        later.clock.offset = importing.clock.offset
        done = await later.run(importing.gateway.db, "products", *records.corrected)

        assert (sum(done.counts.values()), done.bad) == (3, []), stop
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

        done = await importing.run(gateway.db, "comments", *records.files)
        assert (sum(done.counts.values()), done.bad) == (2, []), stop
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
    for stop in some_stops(4):
        await rebuild(importing.gateway)
        lost: list[NetworkTimeout] = []

        async def time_out(lost: list[NetworkTimeout] = lost) -> None:
            lost.append(NetworkTimeout("the server is slow"))
            raise lost[0]

        database = interrupted(importing.gateway.db, None, None, time_out, skip=stop)
        done = await importing.run(database, kind, *records.files)

        assert (sum(done.counts.values()), done.bad) == (sum(map(len, records.files)), []), stop
        await importing.complete(records)
        if not lost:
            assert stop > 0, "no command timed out"
            break


@pytest.mark.parametrize(
    ("kind", "module", "name"),
    [
        ("posts", content_imports, "_import"),
        ("wall-posts", post_imports, "_import"),
        ("comments", comment_imports._Work, "import_one"),
    ],
)
async def test_a_batch_is_stored_again_when_nothing_of_the_first_try_goes_on(
    importing: Importing, kind: str, module: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, calls, running = getattr(module, name), itertools.count(), 0

    async def fail_first(*given: Any) -> Any:
        nonlocal running
        if next(calls) == 0:
            raise NetworkTimeout("the server is slow")
        running += 1
        await asyncio.sleep(0.01)
        stored = await store(*given)
        running -= 1
        return stored

    async def nothing_goes_on(_seconds: float) -> None:
        assert running == 0
        paused.append(running)

    paused: list[int] = []
    await rebuild(importing.gateway)
    await add_products(importing.gateway.db, [product(sku="p")])
    monkeypatch.setattr(module, name, fail_first)
    monkeypatch.setattr(runs, "pause", nothing_goes_on)
    record = comments("DOCUMENTS").files[0][0] if kind == "comments" else RECORDS[kind].files[0][0]
    key = "slug" if kind == "posts" else "id"

    done = await importing.run(importing.gateway.db, kind, [record | {key: f"{number}"} for number in range(3)])

    assert (done.counts, done.bad, len(paused)) == ({"created": 1, "unchanged": 2}, [], 1)
