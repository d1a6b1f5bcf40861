"""Creates objects of every type that the gateway serves, for tests with generated operations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from portico.resolvers.comments.discussions import DOCUMENTS, PAGES
from portico.resolvers.game.stacks import Place, stack_id
from portico.schema.nodes import encode_id
from portico.schema.scalars import format_instant
from tests.accounts.support.accounts import open_account, transfer_input
from tests.ads.support.ads import ad, place
from tests.analytics.support.log_events import NOON, event, log, logged
from tests.comments.support.discussions import post
from tests.content.support.site import create_entry, create_page, create_section
from tests.game.support.stacks import give, goods, offer
from tests.shop.support.shop import checkout_input, new_cart, restock
from tests.social.support.social import block, circle, join
from tests.support.harness import GatewayClient, create_category, create_product

# For each name of an argument, the values that find an object.
Known = dict[str, list[str]]

_FILM = {"directors": ["One"], "actors": ["Two", "Three"], "genres": ["Drama"], "aspectRatio": "1.85:1"}
_PRODUCTS = 12


async def create_everything(gateway: GatewayClient) -> Known:
    """Creates a catalog, the content of a site, discussions, a purchase, members, inventories, ads and traffic.

    Returns:  the values that find them.
    """
    catalog = await _catalog(gateway)
    site = await _site(gateway)
    comments = await _discussions(gateway, catalog["id"][-1], site["id"][-1])
    bought = await _bought(gateway, catalog["sku"])
    people = await _people(gateway)
    inventories = await _inventories(gateway)
    ads = await _ads(gateway)
    traffic = await _traffic(gateway)
    known: Known = {}
    for part in (catalog, site, comments, bought, people, inventories, ads, traffic):
        for name, values in part.items():
            known.setdefault(name, []).extend(values)
    return {**known, "ids": known["id"]}


async def _catalog(gateway: GatewayClient) -> Known:
    """Creates products of every type, in three levels of categories."""
    parent: dict[str, Any] = {}
    for slug in ("music", "jazz", "bop"):
        more = {"parentId": parent["id"]} if parent else {}
        parent = await create_category(gateway, name=slug.title(), slug=slug, **more)
    kinds: list[dict[str, Any]] = [
        {"categoryIds": [parent["id"]], "shipping": {"weight": 1.5}},
        {"type": "Film", "details": _FILM, "issueDate": "1999-03-31T00:00:00.000Z"},
        {"type": "Lamp", "details": {"watts": [1, 2.5, None], "nested": {"a": {"b": True}}}},
    ]
    made = [await create_product(gateway, sku=f"sku-{number}", **kinds[number % 3]) for number in range(_PRODUCTS)]
    return {
        "id": [parent["id"], *(product["id"] for product in made)],
        "sku": [product["sku"] for product in made],
        "slug": ["music", "bop"],
    }


async def _site(gateway: GatewayClient) -> Known:
    """Creates a page and two entries in sections, with tags, and edits one text."""
    section = await create_section(gateway, slug="about")
    blog = await create_section(gateway, "BLOG", slug="blog")
    page = await create_page(gateway, parentId=section["id"], slug="us", tags=["news", "people"])
    entries = [await create_entry(gateway, blog, slug=f"entry-{number}", tags=["news"]) for number in range(2)]
    edit = {"id": page["id"], "nonce": page["nonce"], "text": "*Other*.\n"}
    assert (await gateway.result("editText", edit))["__typename"] == "ContentPayload"
    return {
        "id": [node["id"] for node in (section, blog, page, *entries)],
        "path": ["/about", "/about/us", "/blog", *(entry["path"] for entry in entries)],
        "tag": ["news", "people"],
    }


async def _discussions(gateway: GatewayClient, *subjects: str) -> Known:
    """Creates threads with a deleted comment, in two of the storages."""
    known: Known = {"id": [], "slug": []}
    for subject, storage in zip(subjects, (DOCUMENTS, PAGES), strict=True):
        opened = await gateway.result("openDiscussion", {"subjectId": subject, "storage": storage})
        discussion = opened["discussion"]["id"]
        first = await post(gateway, discussion, "The *first*.")
        replies = [await post(gateway, discussion, "A reply.", first["slug"]) for _ in range(2)]
        last = await post(gateway, discussion, "Below.", replies[0]["slug"])
        deleted = await gateway.result("deleteComment", {"id": replies[0]["id"]}, token=gateway.token("poster", []))
        assert deleted["__typename"] == "CommentPayload", deleted
        known["id"] += [discussion, first["id"], replies[0]["id"], last["id"]]
        known["slug"] += [first["slug"], last["slug"]]
    return known


async def _bought(gateway: GatewayClient, skus: list[str]) -> Known:
    """Creates a cart, an order, and two accounts with a transfer between them."""
    for sku in skus[:2]:
        await restock(gateway, sku, 10)
    accounts = [await open_account(gateway.db, amount) for amount in (1_000_000, 0)]
    given = transfer_input(accounts[0], accounts[1], 1000)
    moved = await gateway.result("transfer", {**given, "idempotencyKey": "a transfer"})
    ordered = checkout_input(await new_cart(gateway, **{skus[0]: 2}), payment={"accountId": accounts[0]})
    done = await gateway.result("checkout", ordered)
    assert done["__typename"] == "CheckoutPayload", done
    cart = await new_cart(gateway, **{skus[0]: 1, skus[1]: 3})
    return {"id": [*accounts, moved["transfer"]["id"], done["order"]["id"], cart, cart]}


async def _people(gateway: GatewayClient) -> Known:
    """Creates members: the caller with circles, followers and a block, and one who has blocked the caller."""
    me = gateway.subject
    await join(gateway.db, me, "ada", "bo", "cy", about="Somebody.", interests=["jazz", "chess"])
    for name in ("a.b", "$x"):
        await circle(gateway.db, me, "ada", "bo", name=name)
    await circle(gateway.db, "ada", me, "bo")
    await block(gateway.db, me, "bo")
    await block(gateway.db, "cy", me)
    return {"id": [encode_id("User", subject) for subject in (me, "ada", "bo", "cy")]}


async def _inventories(gateway: GatewayClient) -> Known:
    """Creates the caller's bag, a shop, and a trade between the caller and another player."""
    me = gateway.subject
    for item in ("sword", "shield", "potion"):
        await give(gateway.db, me, item, 5)
        await give(gateway.db, "smithy", item, 5, name="shop")
    trade = await offer(gateway, me, "ada", [goods("sword", 2)], [goods("coin", 3), goods("gem", 1)])
    stack = stack_id(Place(me, "bag"), "thing", "shield")
    return {
        "id": [trade, encode_id("Stack", stack)],
        "owner": [me, "smithy"],
        "name": ["bag", "shop"],
        "category": ["thing"],
        "itemId": ["sword", "shield"],
    }


async def _ads(gateway: GatewayClient) -> Known:
    """Creates a zone whose ads have different prices, so that no choice is random."""
    names = ("banner", "video", "text")
    prices = {name: 3 * 7**number for number, name in enumerate(names)}
    zone = await place(gateway, *(ad(unit=name, ecpm=price, keywords=[name]) for name, price in prices.items()))
    return {"id": [zone["id"]], "siteId": [zone["siteId"]], "zoneId": [zone["zoneId"]]}


async def _traffic(gateway: GatewayClient) -> Known:
    """Records requests of two pages."""
    await log(gateway, *(event(f"/page-{number % 2}", number, user=f"user-{number}") for number in range(6)))
    (first, *_) = (await logged(gateway))["nodes"]
    times = [format_instant(NOON + timedelta(days=day)) for day in (-1, 0, 1)]
    return {"id": [first["id"]], "from": times[:2], "to": times[1:]}
