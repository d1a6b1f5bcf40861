"""What each mutation changes, and the field of its payload that leads there.

Client stores take what a payload shows. So every mutation is in the table, with what an application may show of its
change; and each field of a payload is there because some mutation needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from graphql import get_named_type

from tests.support.domains import SCHEMA

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
