"""Documents in an older form are served in the current form, and reads upgrade them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from pymongo import AsyncMongoClient
from pymongo.read_concern import ReadConcern

from portico.gateway.settings import Settings
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.documents import Database, Document
from portico.schema.kinds import Kind
from tests.catalog.support.catalog import document, skus
from tests.catalog.support.old_products import album
from tests.support.domains import migrate
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.interruptions import database_of, interrupted

pytestmark = pytest.mark.both_drivers

WHOLE = """
query ($sku: String!) {
  product(sku: $sku) {
    __typename
    sku
    title
    description
    asin
    nonce
    issueDate
    pricing { list { amount currency } retail { amount currency } savings { amount } pctSavings }
    shipping { weight dimensions { width height depth } }
    categories { slug }
    properties { name value }
    ... on AudioAlbum { artist genres tracks }
    ... on Film { directors writers actors genres aspectRatio }
    ... on GeneralProduct { type details }
  }
}
"""

# What `film` has in its details, in the current form.
MATRIX = {
    "title": "The Matrix",
    "directors": ["Andy Wachowski", "Larry Wachowski"],
    "writers": ["Andy Wachowski"],
    "actors": ["Keanu Reeves"],
    "genres": ["Science Fiction"],
}


def film(**fields: Any) -> Document:
    return {
        "sku": "00e8da9d",
        "type": "Film",
        "asin": "B000P0J0AQ",
        "pricing": {"list": 2000, "retail": 1000},
        "details": {
            "title": "The Matrix",
            "director": ["Andy Wachowski", "Larry Wachowski"],
            "writer": "Andy Wachowski",
            "actor": ["Keanu Reeves"],
            "genre": "Science Fiction",
            "aspect_ratio": "1.66:1",
        },
        **fields,
    }


async def put(gateway: GatewayClient, *documents: Document) -> None:
    await gateway.db["products"].insert_many(documents)
    gateway.commands.clear()


async def stored(gateway: GatewayClient, sku: str) -> Document:
    return await gateway.stored("products", {"sku": sku})


async def test_an_old_album_is_served_in_the_current_form(gateway: GatewayClient) -> None:
    await put(gateway, album())

    found = (await gateway.data(WHOLE, {"sku": "00e8da9b"}))["product"]

    assert len(found.pop("nonce")) == 24
    assert found == {
        "__typename": "AudioAlbum",
        "sku": "00e8da9b",
        "title": "A Love Supreme",
        "description": "by John Coltrane",
        "asin": "B0000A118M",
        "issueDate": "1965-01-01T00:00:00.000Z",
        "pricing": {
            "list": {"amount": 1200, "currency": "USD"},
            "retail": {"amount": 1100, "currency": "USD"},
            "savings": {"amount": 100},
            "pctSavings": 8,
        },
        "shipping": {"weight": 6.0, "dimensions": {"width": 10.0, "height": 10.0, "depth": 1.0}},
        "categories": [],
        "properties": [],
        "artist": "John Coltrane",
        "genres": ["Jazz", "General"],
        "tracks": ["A Love Supreme, Part I: Acknowledgement", "A Love Supreme, Part II: Resolution"],
    }


async def test_an_old_film_without_a_title_gets_the_title_in_its_details(gateway: GatewayClient) -> None:
    await put(gateway, film())

    found = (await gateway.data(WHOLE, {"sku": "00e8da9d"}))["product"]

    assert {name: found[name] for name in (*MATRIX, "aspectRatio")} == {**MATRIX, "aspectRatio": "1.66:1"}
    assert (found["issueDate"], found["shipping"], found["pricing"]["pctSavings"]) == (None, None, 50)


async def test_a_minimal_old_product_is_served(gateway: GatewayClient) -> None:
    await put(gateway, {"sku": "bare", "type": "Disk Drive"})

    found = (await gateway.data(WHOLE, {"sku": "bare"}))["product"]

    assert (found["__typename"], found["title"], found["details"]) == ("GeneralProduct", "bare", {})
    assert found["pricing"]["retail"] == {"amount": 0, "currency": "USD"}


@pytest.mark.parametrize("by", ["sku", "id"])
async def test_an_old_product_is_stored_completely_even_if_few_fields_are_selected(
    gateway: GatewayClient, by: str
) -> None:
    await put(gateway, film())
    text = {
        "sku": '{ found: product(sku: "00e8da9d") { title } }',
        "id": f'{{ found: node(id: "{Kind.encode_id("Product", "00e8da9d")}") {{ ... on Product {{ title }} }} }}',
    }

    assert await gateway.data(text[by]) == {"found": {"title": "The Matrix"}}
    found = await stored(gateway, "00e8da9d")

    assert found["schema_version"] == PRODUCTS.version
    assert found["details"] == {**MATRIX, "aspect_ratio": "1.66:1"}


async def test_an_upgrade_keeps_unknown_fields(gateway: GatewayClient) -> None:
    odd = {"qty": 16, "carted": [{"qty": 1}], "details": {"$odd": {"a.b": 1}, "genre": ["Jazz"]}}
    await put(gateway, album(**odd))

    await gateway.data(WHOLE, {"sku": "00e8da9b"})
    found = await stored(gateway, "00e8da9b")

    assert (found["qty"], found["carted"]) == (16, [{"qty": 1}])
    assert found["details"] == {"$odd": {"a.b": 1}, "genres": ["Jazz"]}
    assert found["schema_version"] == PRODUCTS.version


async def test_an_upgraded_product_is_not_written_again(gateway: GatewayClient) -> None:
    await put(gateway, album())
    first = await gateway.data(WHOLE, {"sku": "00e8da9b"})
    assert gateway.commands.names() == ["find products", "find products", "update products"]
    gateway.commands.clear()

    assert await gateway.data(WHOLE, {"sku": "00e8da9b"}) == first
    assert gateway.commands.names() == ["find products"]


async def test_concurrent_readers_get_the_same_answer(gateway: GatewayClient) -> None:
    await put(gateway, *(album(sku=f"old-{number}") for number in range(5)))
    fields = [f'p{number}: product(sku: "old-{number}") {{ nonce title }}' for number in range(5)]
    text = f"{{ {' '.join(fields)} }}"

    answers = await asyncio.gather(*(gateway.data(text) for _ in range(20)))

    assert all(answer == answers[0] for answer in answers)
    assert len({one["nonce"] for one in answers[0].values()}) == 5
    assert [(await stored(gateway, f"old-{number}"))["nonce"] for number in range(5)] == [
        answers[0][f"p{number}"]["nonce"] for number in range(5)
    ]


async def test_an_old_product_can_be_edited_with_the_nonce_that_is_served(gateway: GatewayClient) -> None:
    await put(gateway, album())
    read = (await gateway.data(WHOLE, {"sku": "00e8da9b"}))["product"]

    edited = await gateway.result(
        "updateProduct", {"id": Kind.encode_id("Product", "00e8da9b"), "nonce": read["nonce"], "title": "Ascension"}
    )

    assert edited["product"]["title"] == "Ascension"
    assert await skus(gateway, titleWord="ascension", genres=["jazz"]) == ["00e8da9b"]


@pytest.mark.parametrize(
    ("change", "word"),
    [({"title": "Ascension"}, "ascension"), ({"details.genre": ["Free Jazz"]}, "supreme"), ({"qty": 3}, "supreme")],
)
async def test_an_edit_between_reading_and_storing_wins(
    gateway: GatewayClient, change: dict[str, Any], word: str
) -> None:
    """The edit comes from a gateway that still writes the old form."""
    await put(gateway, album())
    database = gateway.db

    async def edit() -> None:
        await database["products"].update_one({"sku": "00e8da9b"}, {"$set": change})

    with database_of(gateway, interrupted(database, "products", "bulk_write", edit)):
        await gateway.data(WHOLE, {"sku": "00e8da9b"})
    is_still_old = "schema_version" not in await stored(gateway, "00e8da9b")
    await gateway.data(WHOLE, {"sku": "00e8da9b"})
    found = await stored(gateway, "00e8da9b")

    # A change to a field that the upgrade does not use does not delay it.
    assert is_still_old == ("qty" not in change)
    assert found["schema_version"] == PRODUCTS.version
    assert (found["title"], found.get("qty"), found["details"]["genres"]) == (
        change.get("title", "A Love Supreme"),
        change.get("qty"),
        change.get("details.genre", ["Jazz", "General"]),
    )
    assert await skus(gateway, titleWord=word) == ["00e8da9b"]
    await assert_invariants(gateway)


async def test_a_product_that_is_deleted_between_reading_and_storing_stays_deleted(gateway: GatewayClient) -> None:
    await put(gateway, album())
    database = gateway.db

    async def delete() -> None:
        await database["products"].delete_one({"sku": "00e8da9b"})

    with database_of(gateway, interrupted(database, "products", "bulk_write", delete)):
        assert (await gateway.data(WHOLE, {"sku": "00e8da9b"}))["product"]["title"] == "A Love Supreme"

    assert (await gateway.data(WHOLE, {"sku": "00e8da9b"})) == {"product": None}


async def test_lists_and_filters_find_old_products_after_a_migration(gateway: GatewayClient) -> None:
    new = document(sku="new", title="Drive")
    await put(gateway, album(), film(), new)
    assert await skus(gateway) == ["new"]

    batches = [one async for one in migrate(gateway.db)]

    assert batches == [("products", 2)]
    assert await skus(gateway) == ["00e8da9b", *sorted(["00e8da9d", "new"], key=await order(gateway), reverse=True)]
    assert await skus(gateway, genres=["JAZZ"]) == ["00e8da9b"]
    assert await skus(gateway, actor="keanu reeves", type="FILM") == ["00e8da9d"]
    assert await skus(gateway, artist="John Coltrane") == ["00e8da9b"]
    assert await skus(gateway, titlePrefix="The M") == ["00e8da9d"]
    assert await skus(gateway, search="matrix") == ["00e8da9d"]
    assert await skus(gateway, "DISCOUNT_DESC", minPctSavings=7) == ["00e8da9d", "00e8da9b"]
    assert await stored(gateway, "new") == new
    await assert_invariants(gateway)


async def order(gateway: GatewayClient) -> Any:
    """The order of products without a date."""
    ids = {one["sku"]: one["_id"] async for one in gateway.db["products"].find({}, {"sku": 1})}
    return ids.__getitem__


async def test_a_migration_runs_in_batches_of_a_hundred_and_can_be_repeated(gateway: GatewayClient) -> None:
    await put(gateway, *(album(sku=f"old-{number}", schema_version=1) for number in range(130)))
    await put(gateway, *(film(sku=f"older-{number}") for number in range(120)))

    assert [one async for one in migrate(gateway.db)] == [("products", 100), ("products", 100), ("products", 50)]
    assert [one async for one in migrate(gateway.db)] == []
    assert await gateway.db["products"].count_documents({"schema_version": PRODUCTS.version}) == 250


async def test_a_product_in_an_unknown_form_does_not_stop_the_others(gateway: GatewayClient) -> None:
    await put(gateway, album(sku="odd", pricing={"list": "a lot"}), album())

    assert [one async for one in migrate(gateway.db)] == [("products", 2)]
    assert [one async for one in migrate(gateway.db)] == []
    assert await skus(gateway) == ["00e8da9b"]
    assert (await stored(gateway, "odd"))["pricing"] == {"list": "a lot"}


async def test_readers_and_two_concurrent_migrations_agree(gateway: GatewayClient) -> None:
    await put(gateway, *(album(sku=f"old-{number}") for number in range(250)))
    seen: dict[str, set[str]] = {f"old-{number}": set() for number in range(250)}

    async def read(start: int) -> None:
        for number in range(start, 250, 5):
            found = (await gateway.data(WHOLE, {"sku": f"old-{number}"}))["product"]
            assert (found["title"], found["genres"]) == ("A Love Supreme", ["Jazz", "General"])
            seen[found["sku"]].add(found["nonce"])

    async def bring_up_to_date() -> None:
        async for _, count in migrate(gateway.db):
            assert count <= 100

    await asyncio.gather(*(read(start) for start in range(5)), bring_up_to_date(), bring_up_to_date())

    for sku, nonces in seen.items():
        assert nonces == {(await stored(gateway, sku))["nonce"]}
    await assert_invariants(gateway)


async def test_a_job_upgrades_products_that_nobody_reads(gateway: GatewayClient) -> None:
    await put(gateway, album(), film())

    await gateway.run_jobs()

    assert set(await skus(gateway)) == {"00e8da9b", "00e8da9d"}


# Lagging secondaries


class LaggingDatabase:
    """A database whose `find` returns the data from the start of the transaction. Writes are not delayed."""

    def __init__(self, database: Any, session: Any) -> None:
        self._database = database
        self._session = session

    def __getitem__(self, name: str) -> LaggingCollection:
        return LaggingCollection(self._database[name], self._session)


class LaggingCollection:
    def __init__(self, collection: Any, session: Any) -> None:
        self._collection = collection
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def find(self, *args: Any, **options: Any) -> Any:
        return self._collection.find(*args, session=self._session, **options)


@contextlib.asynccontextmanager
async def lagging(gateway: GatewayClient, settings: Settings) -> AsyncIterator[None]:
    """Within the block, anonymous queries read what is stored at its start."""
    async with (
        AsyncMongoClient[Document](str(settings.mongodb_uri)) as client,
        client.start_session() as session,
        await session.start_transaction(read_concern=ReadConcern("snapshot")),
    ):
        secondary = LaggingDatabase(client[settings.database], session)
        await secondary["products"].find().to_list()
        gateway.state.reading = cast("Database", secondary)
        yield


@pytest.mark.parametrize("pricing", [{"list": 1200}, {"list": "a lot"}], ids=["upgradable", "unknown form"])
async def test_a_read_from_a_lagging_secondary_does_not_mark_an_upgraded_product_as_failed(
    gateway: GatewayClient, settings: Settings, pricing: Document
) -> None:
    title = "query ($sku: String!) { product(sku: $sku) { title } }"
    await put(gateway, album(pricing=pricing))
    async with lagging(gateway, settings):
        changes = {"title": "Ascension", "pricing": {"list": 1300}}
        await gateway.db["products"].update_one({"sku": "00e8da9b"}, {"$set": changes})
        assert await gateway.data(title, {"sku": "00e8da9b"}) == {"product": {"title": "Ascension"}}
        upgraded = await stored(gateway, "00e8da9b")

        read = await gateway.data(title, {"sku": "00e8da9b"}, token=None)

    assert read == {"product": {"title": "A Love Supreme"}}
    assert upgraded["schema_version"] == PRODUCTS.version
    assert await stored(gateway, "00e8da9b") == upgraded
