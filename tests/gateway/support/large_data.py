"""Fills each domain with the largest objects that it allows, for tests of memory. Most texts are emoji of four bytes.

The first object of a kind is written as the gateway writes it. The others are copies of it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from bench import threads
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from portico.resolvers.documents import Database, Document
from portico.schema.kinds import Kind
from tests.analytics.support.hits import hit, record_hits
from tests.analytics.support.log_events import NOON, event, log
from tests.catalog.support.catalog import add_categories, add_products, product
from tests.content.support.site import create_page
from tests.game.support.stacks import give, goods, offer
from tests.game.support.world import add_character, add_room, item, keeper, monks, room_id
from tests.shop.support.shop import new_cart, stock_up
from tests.social.support.posts import add_followers, add_members, stored_post
from tests.support.documents import only
from tests.support.harness import GatewayClient

EMOJI = "\N{GRINNING FACE}"
CALLER = "tester"
# Rendered, this is 1.3 megabytes.
MARKDOWN = "& " * 131_072
# This has as many parts as any text of its size.
PARTS = "*a*\n\n" * 50_000
WORDS = [f"{number:034}" for number in range(50)]
BEGIN = datetime(2026, 1, 1)  # noqa: DTZ001 - as the driver gives it


async def fill(gateway: GatewayClient) -> dict[str, Any]:
    """Stores everything. Returns the variables that operations find it by."""
    await _catalog(gateway)
    await _shop(gateway)
    await _accounts(gateway)
    await _social(gateway.db)
    await _analytics(gateway)
    await _ads(gateway)
    found = {**await _content(gateway), **await _comments(gateway.db), **await _game(gateway), "words": WORDS}
    products = [Kind.encode_id("Product", f"p{number}") for number in range(100)]
    return {**found, "products": products, "star": Kind.encode_id("User", "star")}


async def _copy(db: Database, name: str, one: Document, count: int, /, **fields: Any) -> list[Any]:
    """Stores copies with these fields; `%n` in a text is the number of the copy. Returns their ids."""

    def copied(number: int) -> Document:
        key = ObjectId() if isinstance(one["_id"], ObjectId) else f"{one['_id'][:-4]}{number:04}"
        texts = {name: text.replace("%n", str(number)) for name, text in fields.items() if isinstance(text, str)}
        return {**one, "_id": key, **fields, **texts}

    return list((await db[name].insert_many([copied(number) for number in range(count)])).inserted_ids)


async def _catalog(gateway: GatewayClient) -> None:
    await add_categories(gateway.db, [{"slug": f"c{number}", "name": EMOJI * 200} for number in range(20)])
    properties = [{"name": f"{number} {EMOJI * 30}", "value": EMOJI * 70} for number in range(30)]
    texts: Document = {"title": EMOJI * 500, "description": EMOJI * 20_000, "properties": properties}
    given = [product(sku=f"p{number}", categories=[f"c{number % 20}"], **texts) for number in range(100)]
    await add_products(gateway.db, given)


async def _shop(gateway: GatewayClient) -> None:
    """A cart with the most lines, and orders that are as large."""
    db = gateway.db
    sku = await stock_up(gateway)
    await new_cart(gateway, **{sku: 1})
    cart = await only(db["carts"])
    lines = [{**cart["items"][0], "sku": f"p{number}", "title": EMOJI * 500} for number in range(100)]
    await db["carts"].update_one({"_id": cart["_id"]}, {"$set": {"items": lines}})
    order = {"_id": f"{0:032}", "owner": CALLER, "placed_at": BEGIN, "items": lines}
    order |= {"total": 1, "currency": "USD", "payment_reference": "r"}
    await _copy(db, "orders", order, 100, cart_id="cart-%n")


async def _accounts(gateway: GatewayClient) -> None:
    text = "mutation ($input: OpenAccountInput!) { openAccount(input: $input) { __typename } }"
    await gateway.data(text, {"input": {"name": EMOJI * 200, "currency": "USD"}})
    await _copy(gateway.db, "accounts", await only(gateway.db["accounts"]), 99)


async def _content(gateway: GatewayClient) -> dict[str, Any]:
    """Pages with the longest texts, of which one has many revisions."""
    db = gateway.db
    await create_page(gateway, text=MARKDOWN, tags=["large"])
    page, revision = await only(db["cms.nodes"]), await only(db["cms.revisions"])
    ids = await _copy(db, "cms.nodes", page, 30, slug="page-%n-large")
    await _copy(db, "cms.nodes", page, 30, slug="page-%n-parts", tags=["parts"], detail={"text": PARTS})
    await db["cms.revisions"].insert_many(
        [{**revision, "_id": f"{page['_id']}.{number}", "number": number} for number in range(2, 31)]
    )
    await db["cms.nodes"].update_one({"_id": page["_id"]}, {"$set": {"revision": 30}})
    return {
        "page": Kind.encode_id("ContentNode", page["_id"]),
        "pages": [Kind.encode_id("ContentNode", one) for one in ids],
    }


async def _comments(db: Database) -> dict[str, str]:
    """Discussions of the longest comments in each storage."""
    found = {}
    for number, storage in enumerate((DOCUMENTS, EMBEDDED, PAGES)):
        one, comments = await threads.put_discussion(db, kind="Product", key=f"p{number}", storage=storage, made=100)
        found[storage.lower()] = Kind.encode_id("Discussion", one["_id"])
        await db["comments"].update_many({"discussion": one["_id"]}, {"$set": {"text": EMOJI * 10_000}})
        # Embedded comments have a megabyte together.
        for name, path, text in (
            ("comment_discussions", "_id", EMOJI * 2_400),
            ("comment_pages", "discussion", EMOJI * 10_000),
        ):
            await db[name].update_many({path: one["_id"]}, {"$set": {"comments.$[].text": text}})
        found["slug"] = comments[0]["slug"]
    return found


async def _social(db: Database) -> None:
    """Posts of a member whom the caller follows, in their wall and in the caller's feed."""
    await add_members(db, CALLER, "star", "ann")
    await add_followers(db, "star", [CALLER])
    posts = []
    for number in range(40):
        post = stored_post("star", BEGIN + timedelta(minutes=number))
        texts = [{**comment, "text": EMOJI * 1_000} for comment in post["comments"]]
        posts.append({**post, "detail": {"text": EMOJI * 100_000}, "comments": texts})
    await db["social.posts"].insert_many(posts)
    keys = [{"post": post["_id"], "of": CALLER} for post in posts]
    news = [{"_id": key, **key, "posted": post["posted"], "by": "star"} for key, post in zip(keys, posts, strict=True)]
    await db["social.news"].insert_many(news)


async def _game(gateway: GatewayClient) -> dict[str, str]:
    """A full room with a character that carries much, a full inventory, and many trades."""
    db = gateway.db
    things = [item(f"{number} {EMOJI * 190}", description=EMOJI * 600) for number in range(300)]
    wares = [[item(EMOJI * 100, description=EMOJI * 50) for _ in range(150)] for _ in range(8)]
    keepers = [keeper(f"Keeper {number}", *sold, number=number) for number, sold in enumerate(wares)]
    room = await add_room(db, "Hall", description=EMOJI * 2_000, items=things, keepers=keepers, characters=monks()[1:])
    carried = [item(f"{number} {EMOJI * 190}", description=EMOJI * 1_000) for number in range(200)]
    await add_character(db, CALLER, room, items=carried)
    await give(db, CALLER, "sword", 5)
    await give(db, "bo", "gem", 5)
    await offer(gateway, CALLER, "bo", [goods("sword")], [goods("gem")])
    shown = {"name": EMOJI * 200, "description": EMOJI * 10_000, "image": "https://example.com/" + "x" * 1_900}
    await _copy(db, "game.stacks", await only(db["game.stacks"], {"owner": CALLER}), 120, item_id="i-%n", **shown)
    lines = [{"category": EMOJI * 100, "item_id": f"{number} {EMOJI * 190}", "quantity": 1} for number in range(20)]
    trade = await only(db["game.trades"])
    done: Document = {"state": "SETTLED", "offers": lines, "wants": lines, "stacks": []}
    await _copy(db, "game.trades", trade, 100, key="trade-%n", **done)
    return {"room": room_id(room)}


async def _ads(gateway: GatewayClient) -> None:
    """A zone with many ads, each with the longest keywords."""
    text = "mutation ($input: PlaceAdInput!) { placeAd(input: $input) { __typename } }"
    placed = {"campaignId": "acme:spring", "adUnitId": "u", "ecpm": 1, "dailyCap": 1_000}
    given = {"siteId": "site", "zoneId": "full", "ad": placed}
    assert (await gateway.data(text, {"input": given}))["placeAd"]["__typename"] == "AdZonePayload"
    zone = await only(gateway.db["ads.zones"])
    [one] = zone["ads"]
    ads = [
        {**one, "ad_unit_id": f"{number} {EMOJI * 150}", "ecpm": 2_000 - number, "keywords": WORDS}
        for number in range(1_000)
    ]
    await gateway.db["ads.zones"].update_one({"_id": zone["_id"]}, {"$set": {"ads": ads}})


async def _analytics(gateway: GatewayClient) -> None:
    """Log events with the longest texts, and hits."""
    await log(gateway, event("/large"))
    one = await only(gateway.db["analytics.log_events"])
    texts = dict.fromkeys(("referrer", "user_agent"), EMOJI * 8_000)
    await _copy(gateway.db, "analytics.log_events", one, 150, path="/%n" + EMOJI * 8_000, time=NOON, **texts)
    await record_hits(gateway, *(hit(at=NOON + timedelta(minutes=number)) for number in range(100)))
