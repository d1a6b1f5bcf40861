"""Records that are too large, that the database refuses, or that another import stores at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from bson import ObjectId
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    DocumentTooLarge,
    OperationFailure,
    PyMongoError,
    WriteError,
)

from portico.gateway.clock import SystemClock
from portico.gateway.mongo.faults import COMMANDS
from portico.resolvers.ads import placement_imports
from portico.resolvers.ads.images import ImageRules
from portico.resolvers.ads.placement_imports import CampaignRecord
from portico.resolvers.documents import Database
from portico.resolvers.errors import Conflict
from portico.resolvers.import_outcomes import refusal_of
from portico.resolvers.writes import retries
from portico.resolvers.writes.sweeps import SweepFailed
from tests.catalog.support.catalog import add_categories, add_products, product
from tests.content.support.photos import picture
from tests.support.domains import IMPORTERS
from tests.support.harness import IS_SOAK, GatewayClient, assert_invariants
from tests.support.importing import Imported, put, write
from tests.support.interruptions import before_every_command, interrupted

Line = dict[str, Any]
Importing = Callable[..., Awaitable[Imported]]
HUGE, DAY = "x" * 500_000, "2020-01-01T00:00:00Z"
AD: Line = {"siteId": "shop.example", "adUnitId": "banner", "ecpm": 100}
EVENT: Line = {"kind": "CLICK", "at": "2020-01-01", "campaignId": "acme:there", "zoneId": "front"}


def line_of(subject: str, key: str, text: str) -> Line:
    """A valid record with this text."""
    made: dict[str, Callable[[], Line]] = {
        "categories": lambda: {"slug": key, "name": text},
        "products": lambda: product(sku=key, title=text),
        "images": lambda: {"product": key, "file": "photo.png", "alt": text},
        "posts": lambda: {"slug": key, "title": "Post", "text": text},
        "photos": lambda: {"slug": key, "file": "photo.png", "title": text},
        "comments": lambda: {"product": "p", "id": key, "author": "Ann", "posted": DAY, "text": text},
        "people": lambda: {"subject": key, "name": text},
        "wall-posts": lambda: {"id": key, "author": "ann", "text": text},
        "world": lambda: {"id": key, "name": "Room", "description": text, "exits": {}},
        "equipment": lambda: {"category": "thing", "itemId": key, "name": text, "quantity": 1},
        "campaigns": lambda: {"campaignId": f"acme:{key}", "ads": [{**AD, "zoneId": key, "keywords": [text]}]},
        "ads": lambda: {**AD, "adUnitId": "box", "zoneId": key, "campaignId": f"acme:{key}", "keywords": [text]},
        "ad-events": lambda: {**EVENT, "userId": key, "siteId": key, "adUnitId": text},
        "logs": lambda: {"host": key, "time": DAY, "path": text},
    }
    return made[subject]()


async def add_parents(gateway: GatewayClient, subject: str = "") -> None:
    """Adds what the records of a subject refer to."""
    owners = ["a", "b", "c", *(f"k{number}" for number in range(30))] if subject == "images" else []
    await add_products(gateway.db, [product(sku=sku) for sku in ("p", *owners)])
    campaign = CampaignRecord(EVENT["campaignId"], is_active=True, placements=())
    rules = gateway.state.resources.of(ImageRules)
    await placement_imports.import_campaign(gateway.db, campaign, now=SystemClock().now(), rules=rules)


@pytest.fixture
def importing(gateway: GatewayClient, file: Path) -> Importing:
    """Imports records, beside a picture that they can name."""
    write(file.parent / "photo.png", picture())

    async def imported(subject: str, given: list[Line], db: Database | None = None) -> Imported:
        return await put(gateway.db if db is None else db, subject, file, given, gateway.state.resources)

    return imported


def three_of(subject: str, *texts: str) -> list[Line]:
    """Valid records with these texts."""
    return [line_of(subject, key, text) for key, text in zip("abc", texts, strict=True)]


def refusing(db: Database, error: Exception) -> Database:
    """Returns the database, which refuses commands with the word `UNWANTED`."""
    return cast("Database", _RefusingDatabase(db, error))


class _RefusingDatabase:
    def __init__(self, database: Any, error: Exception) -> None:
        self._database = database
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> Any:
        return _RefusingCollection(self._database[name], self._error)


class _RefusingCollection:
    def __init__(self, collection: Any, error: Exception) -> None:
        self._collection = collection
        self._error = error

    def with_options(self, **options: Any) -> _RefusingCollection:
        return _RefusingCollection(self._collection.with_options(**options), self._error)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._collection, name)
        if name not in COMMANDS - {"find", "find_one"}:
            return method

        async def checked(*args: Any, **kwargs: Any) -> Any:
            if any("UNWANTED" in str(one) for one in (*args, *kwargs.values())):
                raise self._error
            return await method(*args, **kwargs)

        return checked


TOO_LARGE = DocumentTooLarge("'insert' command document too large")
NOT_VALID = WriteError("Document failed validation", 121)
GROWN = OperationFailure("Resulting document after update is larger than 16777216", 17419)


@pytest.mark.sample(4)
@pytest.mark.parametrize("error", [TOO_LARGE, NOT_VALID, GROWN], ids=["too large", "not valid", "grown too large"])
@pytest.mark.parametrize("subject", IMPORTERS)
async def test_a_record_that_the_database_refuses_is_reported_and_the_others_are_stored(
    gateway: GatewayClient, importing: Importing, subject: str, error: Exception
) -> None:
    await add_parents(gateway, subject)
    given = three_of(subject, "Good", "UNWANTED", "Good")

    done = await importing(subject, given, refusing(gateway.db, error))
    again = await importing(subject, given)

    assert done.counts == {"created": 2, "failed": 1}
    ((line, reason),) = done.reasons
    assert (line, reason.startswith("the database rejected it: ")) == (2, True)
    assert again.counts == {"created": 1, "unchanged": 2}


LOST_ROLE = {"code": 189, "errmsg": "Not primary while writing"}
ELECTIONS: dict[str, PyMongoError] = {
    "one": WriteError("Not primary while writing", 189, LOST_ROLE),
    "a batch": BulkWriteError({"writeErrors": [{"index": 0, **LOST_ROLE}], "writeConcernErrors": []}),
    "acknowledgement": BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 91, "errmsg": "shutdown"}]}),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("error", ELECTIONS.values(), ids=ELECTIONS)
@pytest.mark.parametrize("subject", IMPORTERS)
async def test_an_election_refuses_no_record_and_the_next_import_stores_them_all(
    gateway: GatewayClient, importing: Importing, subject: str, error: PyMongoError
) -> None:
    await add_parents(gateway, subject)
    given = three_of(subject, "Good", "UNWANTED", "Good")

    with pytest.raises((PyMongoError, SweepFailed)):
        await importing(subject, given, refusing(gateway.db, error))
    done = await importing(subject, given)

    assert (sum(done.counts.values()), done.bad) == (3, [])
    await assert_invariants(gateway)


# For each subject: the collection, the path that finds a record, and the fields that the test removes.
STORED = {
    "categories": ("categories", "slug", ("name",)),
    "products": ("products", "sku", ("nonce",)),
    "posts": ("cms.nodes", "slug", ("detail",)),
    "photos": ("cms.nodes", "slug", ("detail",)),
    "comments": ("comments", "text", ("author", "text")),
    "people": ("social.members", "_id", ("name",)),
    "wall-posts": ("social.posts", "detail.text", ("by",)),
    "world": ("game.locations", "key", ("name",)),
    "equipment": ("game.stacks", "item_id", ("name",)),
    "campaigns": ("ads.zones", "zone_id", ("ads",)),
    "ads": ("ads.zones", "zone_id", ("ads",)),
    "ad-events": ("ads.profiles", "events.site_id", ("events",)),
}


# An import of logs only inserts, so it reads no document. One of images reads no more of an owner than its key.
@pytest.mark.sample(3)
@pytest.mark.parametrize("subject", [subject for subject in IMPORTERS if subject not in {"logs", "images"}])
async def test_a_damaged_document_fails_only_its_own_record(
    gateway: GatewayClient, importing: Importing, subject: str
) -> None:
    await add_parents(gateway, subject)
    await importing(subject, three_of(subject, "Text of a", "Text of b", "Text of c"))
    collection, path, taken = STORED[subject]
    name = "Text of b" if path.endswith("text") else "b"
    damaged = await gateway.db[collection].update_one({path: name}, {"$unset": dict.fromkeys(taken, "")})

    done = await importing(subject, three_of(subject, "New text of a", "New text of b", "New text of c"))

    assert damaged.matched_count == 1
    # An event with another text is another event.
    assert done.counts == {"created" if subject == "ad-events" else "changed": 2, "failed": 1}
    ((line, reason),) = done.reasons
    assert (line, "damaged" in reason) == (2, True)


@pytest.mark.parametrize(("subject", "shown"), [("categories", "name"), ("products", "title")])
async def test_the_document_that_the_server_refuses_in_a_batch_is_reported(
    gateway: GatewayClient, importing: Importing, subject: str, shown: str
) -> None:
    await gateway.db.command("collMod", subject, validator={shown: {"$ne": "UNWANTED"}})
    try:
        done = await importing(subject, three_of(subject, "Good", "UNWANTED", "Good"))
    finally:
        await gateway.db.command("collMod", subject, validator={})

    assert done.counts == {"created": 2, "failed": 1}
    assert done.reasons == [(2, "the database rejected it: Document failed validation")]


async def test_a_product_that_others_keep_changing_is_retried(
    gateway: GatewayClient, importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_LONGEST_PAUSE", 0.01)
    await add_categories(gateway.db, [{"slug": "jazz", "name": "Jazz"}])
    db = gateway.db

    async def delete_category() -> None:
        await db["categories"].delete_many({})

    async def change_product() -> None:
        await db["products"].update_many({}, {"$set": {"category_ids": [ObjectId()]}})

    contested = interrupted(db, "products", "insert_many", delete_category)
    contested = before_every_command(contested, change_product, collection="products", method="delete_one")

    done = await importing("products", [product(sku="a", categories=["jazz"])], contested)

    assert done.reasons == [(1, "categories: There is no category 'jazz'.")]


FAILURES = {
    "damaged": ([KeyError("name"), TypeError()], "stored data is damaged: "),
    "others are faster": ([Conflict("Others are faster."), KeyError("name")], "Others are faster."),
    "too late": ([KeyError("name"), OperationFailure("Interrupted", 11601)], None),
}


@pytest.mark.parametrize(("errors", "reason"), FAILURES.values(), ids=FAILURES)
def test_only_damage_is_reported_as_damage(errors: list[Exception], reason: str | None) -> None:
    refusal = refusal_of(SweepFailed.of(errors, 0))

    assert refusal is None if reason is None else str(refusal).startswith(reason)


async def test_a_lost_connection_ends_an_import(gateway: GatewayClient, importing: Importing) -> None:
    gone = refusing(gateway.db, ConnectionFailure("gone"))

    with pytest.raises(ConnectionFailure):
        await importing("categories", [line_of("categories", "a", "UNWANTED")], gone)


AD_IDS = ("campaignId", "adUnitId", "siteId", "zoneId")
# Fields of a record, and the path of the one with too long a text.
TOO_LONG: dict[str, list[tuple[Line, str]]] = {
    "categories": [({"slug": HUGE}, "slug"), ({"parent": HUGE}, "parent"), ({"name": HUGE}, "name")],
    "products": [({"sku": HUGE}, "sku"), ({"categories": [HUGE]}, "categories.0"), ({"title": HUGE}, "title")],
    "posts": [({"slug": HUGE}, "slug"), ({"authors": [HUGE]}, "author"), ({"tags": [HUGE]}, "tags.0")],
    "comments": [({name: HUGE}, name) for name in ("id", "parent", "author", "product")],
    "people": [({name: HUGE}, name) for name in ("subject", "name")],
    "wall-posts": [*(({name: HUGE}, name) for name in ("id", "author", "to")), ({"text": HUGE}, "detail.status.text")],
    "world": [
        *(({name: HUGE}, name) for name in ("id", "name", "description", "zone")),
        ({"exits": {"n": HUGE}}, "exits.n"),
    ],
    "equipment": [({name: HUGE}, name) for name in ("category", "itemId", "name")],
    "campaigns": [({"campaignId": HUGE}, "campaignId"), ({"ads": [{**AD, "zoneId": HUGE}]}, "ads.0.zoneId")],
    "ads": [*(({name: HUGE}, name) for name in AD_IDS), ({"keywords": [HUGE]}, "keywords.0")],
    "ad-events": [({name: HUGE}, name) for name in ("userId", *AD_IDS)],
}


async def test_every_text_has_a_limit_and_the_other_records_are_stored(
    gateway: GatewayClient, importing: Importing
) -> None:
    await add_parents(gateway)
    for subject, rows in TOO_LONG.items():
        many = [line_of(subject, f"k{number}", "Good") | fields for number, (fields, _) in enumerate(rows)]
        done = await importing(subject, [*many, line_of(subject, "good", "Good")])

        assert done.counts == {"created": 1, "failed": len(rows)}, subject
        for (_, path), (_, reason) in zip(rows, done.reasons, strict=True):
            assert reason.startswith(f"{path}: "), subject
            assert "500,000 characters" in reason


@pytest.mark.sample(3)
@pytest.mark.parametrize("subject", [subject for subject in IMPORTERS if subject != "photos"])
async def test_concurrent_imports_of_the_same_records_do_not_conflict(
    gateway: GatewayClient, tmp_path: Path, subject: str
) -> None:
    write(tmp_path / "photo.png", picture())
    await add_parents(gateway, subject)
    await add_categories(gateway.db, [{"slug": "there", "name": "There"}])
    rules = gateway.state.resources
    # Each picture is read by a process of its own.
    count = 30 if IS_SOAK else 6 if subject == "images" else 12
    for text in ("Good", "Better"):
        given = [line_of(subject, f"k{number}", text) for number in range(count)]
        both = [put(gateway.db, subject, tmp_path / f"{number}.jsonl", given, rules) for number in range(3)]
        found = await asyncio.gather(*both)
        assert [one.reasons for one in found] == [[]] * 3
    assert (await put(gateway.db, subject, tmp_path / "0.jsonl", given, rules)).counts == {"unchanged": count}
    await assert_invariants(gateway)
