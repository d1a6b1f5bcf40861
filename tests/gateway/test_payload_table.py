"""What each mutation changes, and the field of its payload that leads there.

Client stores take what a payload shows. So every mutation is in the table, with what an application may show of its
change; and each field of a payload is there because some mutation needs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from bson import ObjectId
from graphql import get_named_type

from portico.gateway.clock import SystemClock
from portico.resolvers.catalog import category_edits
from portico.resolvers.content import deletion
from portico.resolvers.writes.operation_records import record_id_of
from portico.schema.kinds import Kind
from portico.testing import crash_matrix
from portico.testing.kits import mutation_text
from tests.ads.support.ads import ad
from tests.ads.support.ads import place as place_ads
from tests.content.support.site import create_page, create_section
from tests.social.support.social import join
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, SettableClock, create_category, create_product

_SCHEMA = SCHEMA._schema
_CART = ("cart.items", "product.stock", "viewer.cart")
_ACTION = (
    "characterEdge",
    "character.inventory",
    "locations.characters",
    "locations.inventory",
    "shopkeeper.inventory",
    "viewer",
)
_CONTENT = ("content.parent", "content.tags", "contentEdge", "entryEdge", "taggedEdge")
_STACKS = ("stack.heldIn.stacks", "from.heldIn.stacks", "viewer")
_TRADE = ("trade", "tradeEdge", "stacks.heldIn.stacks", "viewer.trades")
_PERSON = (
    *("user", "userEdge", "viewer.blockedUsers", "viewer.hiddenPosts", "viewer.newsFeed", "viewer.notifications"),
    "viewer.user.circles",
)
_POST = ("post.comments", "postEdge", "viewer.newsFeed", "viewer.user.wall")
_DELETED = ("deletedId", "parents", "viewer")
_ACCOUNT = ("account", "viewer.accounts")
_COMMENT = ("comment.discussion.comments", "comment.parent", "commentEdge")
_CATEGORY = ("category.parent.children", "categoryEdge", "category.breadcrumbs")
CHANGES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("createCart", "claimCart"), ("cart.items", "viewer.cart")),
    **dict.fromkeys(("addItemToCart", "updateCartItem"), _CART),
    "checkout": ("cart.items.product.stock", "order", "orderEdge", "viewer.cart", "viewer.orders", "viewer.accounts"),
    "discardCart": ("cart.items.product.stock", "viewer.cart"),
    **dict.fromkeys(("shipOrder", "deliverOrder"), ("order", "orderEdge", "viewer.orders")),
    "cancelOrder": ("order.items.product.stock", "orderEdge", "viewer.orders", "viewer.accounts"),
    "restock": ("product.stock",),
    **dict.fromkeys(("openAccount", "deposit"), _ACCOUNT),
    "transfer": ("transfer.source", "transfer.destination", "viewer.accounts"),
    **dict.fromkeys(("createCategory", "renameCategory"), _CATEGORY),
    "moveCategory": (*_CATEGORY, "from.children"),
    "createProduct": ("product.categories.products", "productEdge"),
    "updateProduct": ("product.categories.products", "from.products", "productEdge"),
    **dict.fromkeys(("addImage", "removeImage"), ("product.images", "category.images")),
    **dict.fromkeys(("deleteCategory", "deleteProduct", "deleteContent", "deletePost"), _DELETED),
    **dict.fromkeys(("createSection", "createPage", "createBlogEntry", "editMetadata"), _CONTENT),
    **dict.fromkeys(("addTags", "removeTags"), ("content.tags", "taggedEdge")),
    **dict.fromkeys(("editText", "restoreRevision"), ("content",)),
    **dict.fromkeys(("uploadPhoto", "replacePhoto"), ("photo.parent", "contentEdge", "taggedEdge")),
    "openDiscussion": ("discussion.subject",),
    **dict.fromkeys(("postComment", "editComment", "deleteComment"), _COMMENT),
    **dict.fromkeys(("join", "updateProfile", "block", "unblock", "addToCircle", "removeFromCircle"), _PERSON),
    **dict.fromkeys(("createPost", "vote"), _POST),
    "commentOnPost": (*_POST, "comment", "commentEdge"),
    "deletePostComment": (*_POST, "deletedCommentId"),
    **dict.fromkeys(
        (
            *("createCharacter", "spawnCharacter", "move", "pickUp", "drop", "give", "buy", "sell"),
            *("putIn", "takeOut", "wear", "wield", "unequip"),
        ),
        _ACTION,
    ),
    "moveCharacter": ("character", "from.characters", "to.characters", "viewer"),
    "deleteCharacter": ("deletedId", "location.characters", "viewer.characters"),
    **dict.fromkeys(("grant", "consume", "transferStack"), _STACKS),
    **dict.fromkeys(("offerTrade", "acceptTrade", "cancelTrade"), _TRADE),
    "placeAd": ("zone.ads",),
    "setAdCreative": ("creative", "changedZones.ads.creative"),
    "markNotificationsRead": ("notifications", "viewer.notifications", "viewer.unreadNotificationCount"),
    "deactivateCampaign": ("changedZones.ads", "zones"),
    **dict.fromkeys(("serveAds", "recordAdEvent"), ("profile.events",)),
    "logEvents": ("logEventEdges",),
}
# What their answers show, clients read again, because it depends on arguments.
STATISTICS = {"recordHits": "`hits`", "recordSessions": "`sessionStats`"}


def _payload(mutation: str) -> Any:
    assert _SCHEMA.mutation_type is not None
    union: Any = get_named_type(_SCHEMA.mutation_type.fields[mutation].type)
    (payload,) = (found for found in union.types if found.name.endswith("Payload"))
    return payload


def test_every_mutation_is_in_the_table() -> None:
    assert _SCHEMA.mutation_type is not None
    assert set(_SCHEMA.mutation_type.fields) == CHANGES.keys() | STATISTICS.keys()


@pytest.mark.parametrize("mutation", CHANGES)
def test_the_payload_leads_to_what_the_mutation_changes(mutation: str) -> None:
    for path in CHANGES[mutation]:
        found = _payload(mutation)
        for name in path.split("."):
            options = [found] if hasattr(found, "fields") else []
            fields = next((one.fields for one in options if name in one.fields), None)
            assert fields is not None, f"{found} has no field {name!r}"
            found = get_named_type(fields[name].type)


def test_the_table_has_every_object_of_a_payload() -> None:
    listed = {f"{_payload(name)}.{path.partition('.')[0]}" for name, paths in CHANGES.items() for path in paths}
    shown = {
        f"{payload}.{name}"
        for payload in map(_payload, CHANGES)
        for name, field in payload.fields.items()
        if hasattr(get_named_type(field.type), "fields")
    }
    # These show no change: what the call chose, and what was wrong with its input.
    answers = {"ServedAdsPayload.ads", "ServedAdsPayload.rejected", "RecordedPayload.invalid"}
    assert shown - listed == answers


# What a payload shows of former parents, whatever crashes

_PARENTS = "... on DeletedPayload { parents { id __typename } }"
_FROM = "... on CategoryPayload { from { id children { nodes { id } } } category { parent { id } } }"
# The input of a call, and its answer. The key makes the objects of each call its own.
Prepared = tuple[dict[str, Any], dict[str, Any]]


def _deleted(given: dict[str, Any], kind: str, *parents: str) -> Prepared:
    return given, {"__typename": "DeletedPayload", "parents": [{"id": one, "__typename": kind} for one in parents]}


async def _category(gateway: GatewayClient, _key: str = "") -> Prepared:
    parent = await create_category(gateway)
    child = await create_category(gateway, parentId=parent["id"])
    return _deleted({"id": child["id"]}, "Category", parent["id"])


async def _product(gateway: GatewayClient, _key: str = "") -> Prepared:
    categories = [(await create_category(gateway))["id"] for _ in range(2)]
    product = await create_product(gateway, categoryIds=categories)
    return _deleted({"id": product["id"], "nonce": product["nonce"]}, "Category", *categories)


async def _page(gateway: GatewayClient, _key: str = "") -> Prepared:
    section = await create_section(gateway)
    page = await create_page(gateway, parentId=section["id"])
    return _deleted({"id": page["id"], "nonce": page["nonce"]}, "Section", section["id"])


async def _post(gateway: GatewayClient, _key: str = "") -> Prepared:
    await join(gateway.db, "tester", "bo")
    me, bo = Kind.encode_id("User", "tester"), Kind.encode_id("User", "bo")
    made = await gateway.result("createPost", {"toId": bo, "detail": {"status": {"text": "Hello"}}})
    return _deleted({"postId": made["post"]["id"]}, "User", me, bo)


async def _move(gateway: GatewayClient, _key: str) -> Prepared:
    former, place = [(await create_category(gateway))["id"] for _ in range(2)]
    child = await create_category(gateway, parentId=former)
    shown = {"from": {"id": former, "children": {"nodes": []}}, "category": {"parent": {"id": place}}}
    return {"id": child["id"], "newParentId": place}, {"__typename": "CategoryPayload", **shown}


async def _edit(gateway: GatewayClient, _key: str) -> Prepared:
    former, place = [(await create_category(gateway))["id"] for _ in range(2)]
    product = await create_product(gateway, categoryIds=[former])
    given = {"id": product["id"], "nonce": product["nonce"], "categoryIds": [place]}
    return given, {"__typename": "ProductPayload", "from": [{"id": former}]}


async def _deactivate(gateway: GatewayClient, key: str) -> Prepared:
    await place_ads(gateway, ad(f"acme:{key}"), zone=key)
    shown = {"__typename": "CampaignPayload", "zones": 1, "changedZones": [{"zoneId": key}]}
    return {"campaignId": f"acme:{key}"}, shown


Prepare = Callable[..., Awaitable[Prepared]]
DELETIONS: Mapping[str, Prepare] = {"deleteCategory": _category, "deleteProduct": _product, "deleteContent": _page}
CRASHED = [
    *(pytest.param(name, _PARENTS, prepared, marks=pytest.mark.sample(3)) for name, prepared in DELETIONS.items()),
    ("moveCategory", _FROM, _move),
    ("updateProduct", "... on ProductPayload { from { id } }", _edit),
    ("deactivateCampaign", "... on CampaignPayload { zones changedZones { zoneId } }", _deactivate),
]


@pytest.mark.parametrize(("mutation", "prepared"), [*DELETIONS.items(), ("deletePost", _post)])
async def test_a_deletion_shows_what_has_listed_the_object(
    gateway: GatewayClient, mutation: str, prepared: Prepare
) -> None:
    given, expected = await prepared(gateway)

    deleted = await gateway.data(mutation_text(SCHEMA._schema, mutation, _PARENTS), {"input": given})

    assert deleted[mutation] == expected


@pytest.mark.sample(2)
@pytest.mark.parametrize(("mutation", "shown", "prepared"), CRASHED)
async def test_a_call_that_crashes_shows_the_former_parents_when_it_is_repeated(
    gateway: GatewayClient, clock: SettableClock, mutation: str, shown: str, prepared: Prepare
) -> None:
    text, expected = mutation_text(SCHEMA._schema, mutation, shown), dict[str, Any]()

    async def prepare(key: str) -> Mapping[str, Any]:
        given, expected[mutation] = await prepared(gateway, key)
        return {"input": {**given, "idempotencyKey": key}}

    async def check(variables: Mapping[str, Any]) -> None:
        assert await gateway.data(text, variables) == expected

    assert await crash_matrix(gateway, clock, text, prepare, check=check) > 1


async def test_only_a_move_from_a_parent_shows_a_former_parent(gateway: GatewayClient) -> None:
    root, place = await create_category(gateway), await create_category(gateway)
    moved = {"id": root["id"], "newParentId": place["id"]}
    shown = "... on CategoryPayload { from { id } }"
    for mutation, given in (
        ("moveCategory", moved),
        ("moveCategory", moved),
        ("renameCategory", {"id": root["id"], "name": "New"}),
    ):
        found = await gateway.data(mutation_text(SCHEMA._schema, mutation, shown), {"input": given})
        assert found[mutation] == {"__typename": "CategoryPayload", "from": None}


async def test_a_deletion_that_an_earlier_version_has_begun_shows_no_parents(gateway: GatewayClient) -> None:
    operation_id = f"{record_id_of('tester', 'a key')}.1"
    record = {"_id": operation_id.partition(".")[0], "operation": operation_id, "notes": {"deleting": True}}
    await gateway.db["operations"].insert_one(record)
    repeated: Any = {"now": SystemClock().now(), "operation_id": operation_id}

    assert await category_edits.delete_category(gateway.db, category_id=ObjectId(), **repeated) is None
    attachments = gateway.state.served.attachments
    deleting = deletion.delete_content(gateway.db, attachments, node_id=ObjectId(), nonce="any", **repeated)
    assert await deleting is None
