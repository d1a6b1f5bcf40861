"""Creates what an old crash leaves for each job. A filter finds it until a job settles it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Document
from tests.gateway.test_upgrades import album
from tests.support.ids import key_in
from tests.support.photos import use_pictures

from . import ad_leftovers, trade_leftovers
from .accounts import open_account, transfer_input
from .discussions import open_on_product, post
from .game_leftovers import (
    idle_character,
    room_with_entry,
    room_with_gift,
    room_with_outcome,
    stale_room,
    unfinished_turn,
)
from .harness import GatewayClient, create_category, create_product
from .hit_leftovers import old_hit_id, old_log_event, sealed_flush
from .interruptions import crashing
from .photos import PicturesHere, create_gallery, create_photo
from .session_leftovers import pending_session
from .shop import checkout_input, new_cart, stock_up
from .site import create_page, create_section
from .social import circle, join
from .social_posts import write_post

Given = dict[str, Any]
OP = "r-0123456789abcdef0123456789abcdef"
LONG_AGO = datetime(2020, 1, 1)  # noqa: DTZ001 - as the driver gives it
# A collection, and a filter that matches only the leftover.
Left = tuple[str, Document]


async def set_values(gateway: GatewayClient, collection: str, key: Any, **values: Any) -> None:
    updated = await gateway.db[collection].update_one({"_id": key}, {"$set": values})
    assert updated.matched_count == 1


async def _category(gateway: GatewayClient, mark: str, **values: Any) -> Left:
    parent = await create_category(gateway)
    child = await create_category(gateway, parentId=parent["id"])
    left: Any = {"op": OP, "at": LONG_AGO, **values}
    await set_values(
        gateway, "categories", key_in("Category", child["id"]), **{mark: [left] if mark == "refresh" else left}
    )
    return "categories", {f"{mark}.op": OP}


async def pending_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "pending")


async def moving_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "moving", to=None)


async def deleting_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "deleting")


async def renamed_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "refresh")


async def product_intent(gateway: GatewayClient) -> Left:
    category = await create_category(gateway)
    made = await create_product(gateway, categoryIds=[category["id"]])
    intent = {"_id": OP, "kind": "product-creation", "keys": [made["sku"]], "at": LONG_AGO}
    await gateway.db["intents"].insert_one(intent)
    return "intents", {"kind": "product-creation"}


async def incoming_product(gateway: GatewayClient) -> Left:
    category, made = await create_category(gateway), await create_product(gateway)
    incoming = {"op": OP, "at": LONG_AGO, "ids": [key_in("Category", category["id"])]}
    await gateway.db["products"].update_one({"sku": made["sku"]}, {"$set": {"incoming": [incoming]}})
    return "products", {"incoming.op": OP}


async def deleting_product(gateway: GatewayClient) -> Left:
    made = await create_product(gateway)
    mark = {"id": OP, "op": OP, "at": LONG_AGO}
    await gateway.db["products"].update_one({"sku": made["sku"]}, {"$set": {"deleting": mark}})
    return "products", {"deleting.op": OP}


async def pending_content(gateway: GatewayClient) -> Left:
    folder = await create_section(gateway)
    made = await create_page(gateway, parentId=folder["id"])
    await set_values(gateway, "cms.nodes", key_in("ContentNode", made["id"]), pending={"op": OP, "at": LONG_AGO})
    return "cms.nodes", {"pending.op": OP}


async def deleting_content(gateway: GatewayClient) -> Left:
    made = await create_section(gateway)
    await set_values(gateway, "cms.nodes", key_in("ContentNode", made["id"]), deleting={"op": OP, "at": LONG_AGO})
    return "cms.nodes", {"deleting.op": OP}


async def unrevised_content(gateway: GatewayClient) -> Left:
    made = await create_page(gateway)
    mark = {"at": LONG_AGO, "author": {"id": "tester", "name": "Tester"}}
    await set_values(gateway, "cms.nodes", key_in("ContentNode", made["id"]), unrevised=mark)
    return "cms.nodes", {"unrevised.at": LONG_AGO}


async def content_intent(gateway: GatewayClient) -> Left:
    intent = {"_id": OP, "kind": "content-deletion", "keys": [str(ObjectId())], "at": LONG_AGO}
    await gateway.db["intents"].insert_one(intent)
    return "intents", {"kind": "content-deletion"}


async def _move(gateway: GatewayClient) -> tuple[str, str, Document]:
    sku = await stock_up(gateway)
    cart = key_in("Cart", await new_cart(gateway, **{sku: 1}))
    return (
        sku,
        cart,
        {
            "id": OP[2:],
            "op": OP,
            "sku": sku,
            "cart_id": cart,
            "kind": "return",
            "quantity": 1,
            "at": LONG_AGO,
        },
    )


async def move_in_stock(gateway: GatewayClient) -> Left:
    sku, _, move = await _move(gateway)
    await set_values(gateway, "stock", sku, under_way=[move])
    return "stock", {"under_way.op": OP}


async def move_in_cart(gateway: GatewayClient) -> Left:
    _, cart, move = await _move(gateway)
    await set_values(gateway, "carts", cart, decided=[{**move, "is_taken": True}])
    return "carts", {"decided.op": OP}


async def flipped_stock(gateway: GatewayClient) -> Left:
    await set_values(gateway, "stock", await stock_up(gateway), flipped_at=LONG_AGO)
    return "stock", {"flipped_at": LONG_AGO}


async def closed_stock(gateway: GatewayClient) -> Left:
    sku = await stock_up(gateway)
    closed = {"deletion": OP, "product_id": ObjectId(), "at": LONG_AGO, "is_final": False}
    await set_values(gateway, "stock", sku, closed=closed)
    return "stock", {"closed.is_final": False}


async def idle_cart(gateway: GatewayClient) -> Left:
    cart = key_in("Cart", await new_cart(gateway, **{await stock_up(gateway): 1}))
    await set_values(gateway, "carts", cart, expires_at=LONG_AGO)
    return "carts", {"status": {"$in": ["ACTIVE", "EXPIRING"]}}


async def old_cart(gateway: GatewayClient) -> Left:
    cart = key_in("Cart", await new_cart(gateway))
    await set_values(gateway, "carts", cart, status="EXPIRED", expires_at=None, last_modified=LONG_AGO)
    return "carts", {"status": "EXPIRED"}


async def expiring_cart(gateway: GatewayClient) -> Left:
    cart = key_in("Cart", await new_cart(gateway, **{await stock_up(gateway): 1}))
    await set_values(gateway, "carts", cart, status="EXPIRING", expires_at=None, due=LONG_AGO)
    return "carts", {"status": "EXPIRING"}


async def pending_cart(gateway: GatewayClient) -> Left:
    account = await open_account(gateway.db, 5000)
    cart = await new_cart(gateway, **{await stock_up(gateway): 1})
    with crashing(gateway, 7):
        await gateway.ask(
            "mutation ($input: CheckoutInput!) { checkout(input: $input) { __typename } }",
            {"input": checkout_input(cart, payment={"accountId": account})},
        )
    await set_values(gateway, "carts", key_in("Cart", cart), due=LONG_AGO)
    return "carts", {"status": "PENDING"}


async def _transfer(gateway: GatewayClient, state: str) -> Left:
    source, destination = await open_account(gateway.db, 100), await open_account(gateway.db)
    given = transfer_input(source, destination)
    text = "mutation ($input: TransferInput!) { transfer(input: $input) { __typename } }"
    assert (await gateway.data(text, {"input": given}))["transfer"]["__typename"] == "TransferPayload"
    open_ = {"state": state, "open_since": LONG_AGO}
    await gateway.db["transfers"].update_one({"source": {"$ne": None}}, {"$set": open_})
    return "transfers", {"open_since": LONG_AGO}


async def new_transfer(gateway: GatewayClient) -> Left:
    return await _transfer(gateway, "NEW")


async def committed_transfer(gateway: GatewayClient) -> Left:
    return await _transfer(gateway, "COMMITTED")


async def rolled_back_transfer(gateway: GatewayClient) -> Left:
    return await _transfer(gateway, "ROLLBACK")


async def _discussion(gateway: GatewayClient, storage: str = "DOCUMENTS") -> ObjectId:
    discussion = await open_on_product(gateway, storage)
    await post(gateway, discussion)
    await post(gateway, discussion)
    found = await gateway.db["discussions"].find_one({"storage": storage})
    assert found is not None
    key: ObjectId = found["_id"]
    return key


async def closed_discussion(gateway: GatewayClient) -> Left:
    closed = {"of": ObjectId(), "by": OP, "is_final": True}
    await set_values(gateway, "discussions", await _discussion(gateway), closed=closed, closing_at=LONG_AGO)
    return "discussions", {"closing_at": LONG_AGO}


async def closing_discussion(gateway: GatewayClient) -> Left:
    closed = {"of": ObjectId(), "by": OP, "is_final": False}
    await set_values(gateway, "discussions", await _discussion(gateway), closed=closed, closing_at=LONG_AGO)
    return "discussions", {"closed.is_final": False}


async def _comment(gateway: GatewayClient, storage: str, by: int) -> Left:
    entry = {"id": ObjectId(), "attempt": OP, "by": by, "parent": None, "at": LONG_AGO}
    await set_values(gateway, "discussions", await _discussion(gateway, storage), under_way=[entry])
    return "discussions", {"under_way.attempt": OP}


async def posted_comment(gateway: GatewayClient) -> Left:
    return await _comment(gateway, "DOCUMENTS", 1)


async def removed_comment(gateway: GatewayClient) -> Left:
    return await _comment(gateway, "DOCUMENTS", -1)


async def posted_comment_of_a_page(gateway: GatewayClient) -> Left:
    return await _comment(gateway, "PAGES", 1)


async def split_page(gateway: GatewayClient) -> Left:
    await _discussion(gateway, "PAGES")
    (page,) = await gateway.db["comment_pages"].find({}).to_list()
    split = {"at": page["comments"][1]["key"], "since": LONG_AGO}
    await set_values(gateway, "comment_pages", page["_id"], split=split)
    return "comment_pages", {"split.since": LONG_AGO}


async def _photo(gateway: GatewayClient, **detail: Any) -> None:
    use_pictures(gateway, PicturesHere())
    photo = await create_photo(gateway, await create_gallery(gateway))
    values = {f"detail.{name}": value for name, value in detail.items()}
    await set_values(gateway, "cms.nodes", key_in("ContentNode", photo["id"]), **values)


async def stalled_upload(gateway: GatewayClient) -> Left:
    await _photo(gateway, upload={"op": OP, "file": ObjectId(), "until": LONG_AGO}, locked=LONG_AGO)
    return "cms.nodes", {"detail.upload.op": OP}


async def replaced_photo(gateway: GatewayClient) -> Left:
    await _photo(gateway, replaced=[{"file": ObjectId(), "at": LONG_AGO}])
    return "cms.nodes", {"detail.replaced.at": LONG_AGO}


async def _file(gateway: GatewayClient, **metadata: Any) -> Left:
    file = {"_id": ObjectId(), "length": 0, "chunkSize": 10, "uploadDate": LONG_AGO, "metadata": metadata}
    await gateway.db["cms.assets.files"].insert_one(file)
    return "cms.assets.files", {name: value for name, value in (("metadata", metadata),) if value}


async def unsettled_file(gateway: GatewayClient) -> Left:
    return await _file(gateway, node=ObjectId(), unsettled=LONG_AGO)


async def unfinished_thumbnail(gateway: GatewayClient) -> Left:
    return await _file(gateway, node=ObjectId(), unsettled=LONG_AGO, of=ObjectId(), maker=OP, width=80)


async def removed_file(gateway: GatewayClient) -> Left:
    return await _file(gateway, node=ObjectId(), removed=LONG_AGO)


async def uncopied_relation(gateway: GatewayClient) -> Left:
    await join(gateway.db, "ada", "bo")
    await circle(gateway.db, "ada", "bo")
    await set_values(
        gateway, "social.relations", {"of": "ada", "to": "bo"}, uncopied={"op": OP, "at": LONG_AGO}, version=2
    )
    return "social.relations", {"uncopied.op": OP}


async def _post(gateway: GatewayClient, **values: Any) -> ObjectId:
    await join(gateway.db, "ada", "bo")
    post = await write_post(gateway.db, "ada")
    await gateway.db["social.posts"].update_one({"_id": post["_id"]}, {"$unset": {"fan_out": ""}})
    await set_values(gateway, "social.posts", post["_id"], **values)
    key: ObjectId = post["_id"]
    return key


async def pending_post(gateway: GatewayClient) -> Left:
    await _post(gateway, fan_out={"after": None, "due": LONG_AGO})
    return "social.posts", {"fan_out.due": {"$exists": True}}


async def deleted_post(gateway: GatewayClient) -> Left:
    await _post(gateway, deleted=LONG_AGO, remove_at=LONG_AGO)
    return "social.posts", {"remove_at": {"$exists": True}}


async def removed_comment_of_a_post(gateway: GatewayClient) -> Left:
    await _post(gateway, removing=[ObjectId()])
    return "social.posts", {"removing": {"$exists": True}}


async def renamed_member(gateway: GatewayClient) -> Left:
    await _post(gateway)
    await set_values(gateway, "social.members", "ada", name="Ada L", renamed={"op": OP, "at": LONG_AGO})
    return "social.members", {"renamed.op": OP}


async def old_product(gateway: GatewayClient) -> Left:
    await gateway.db["products"].insert_one(album())
    return "products", {"schema_version": None}


LEFTOVERS: dict[str, tuple[Callable[[GatewayClient], Awaitable[Left]], ...]] = {
    "finish-categories": (pending_category, moving_category, deleting_category, renamed_category),
    "finish-products": (product_intent, incoming_product, deleting_product),
    "finish-content": (pending_content, deleting_content, unrevised_content, content_intent),
    "finish-stock": (move_in_stock, move_in_cart, flipped_stock, closed_stock),
    "expire-carts": (idle_cart, expiring_cart),
    "delete-carts": (old_cart,),
    "finish-checkouts": (pending_cart,),
    "finish-transfers": (new_transfer, committed_transfer, rolled_back_transfer),
    "finish-comments": (
        closed_discussion,
        closing_discussion,
        posted_comment,
        removed_comment,
        posted_comment_of_a_page,
        split_page,
    ),
    "finish-uploads": (stalled_upload, replaced_photo, unsettled_file, unfinished_thumbnail, removed_file),
    "finish-relations": (uncopied_relation,),
    "deliver-posts": (pending_post,),
    "finish-posts": (deleted_post, removed_comment_of_a_post),
    "copy-names": (renamed_member,),
    "finish-turns": (unfinished_turn,),
    "settle-rooms": (stale_room, room_with_gift, room_with_outcome, room_with_entry),
    "finish-trades": (trade_leftovers.noted_stack, trade_leftovers.accepted_trade),
    "rest-characters": (idle_character,),
    "expire-trades": (trade_leftovers.old_offer,),
    "prune-trades": (trade_leftovers.old_trade,),
    "settle-ads": (ad_leftovers.pending_ad, ad_leftovers.ending_campaign),
    "settle-ad-claims": (ad_leftovers.undecided_claim, ad_leftovers.decided_claim),
    "forget-ad-events": (ad_leftovers.old_event, ad_leftovers.profile_of_an_old_call),
    "forget-log-events": (old_log_event,),
    "settle-hits": (sealed_flush,),
    "forget-hit-ids": (old_hit_id,),
    "roll-up-sessions": (pending_session,),
    "upgrade-documents": (old_product,),
}
