"""The project's own test harness, in addition to `portico.testing`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from portico.gateway.clock import Clock
from portico.gateway.settings import Settings
from portico.resolvers.cursors import Cursors
from portico.resolvers.paging import Key, Listing
from portico.schema.roles import Role
from portico.testing import Answer, Commands, Gateway, SettableClock, assert_invariants, run_jobs
from portico.testing.gateways import SECRET, running_as

# Tests import these names of the public harness from here.
__all__ = ["SECRET", "Answer", "Commands", "SettableClock", "assert_invariants", "run_jobs"]

# Whether long tests run, as in `make soak`.
IS_SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
_numbers = itertools.count(1)


def with_settings(settings: Settings, kind: type, **fields: Any) -> Settings:
    """Returns the settings with these settings of a domain."""
    return replace(settings, slices={**settings.slices, kind: kind(**fields)})


@dataclass
class GatewayClient(Gateway):
    """A gateway whose caller has all roles but ADMIN and ANALYST. Other roles can be chosen."""

    roles: Sequence[Role] = field(default=(Role.MERCHANT, Role.SERVICE, Role.EDITOR, Role.GAME_MASTER, Role.ADVERTISER))

    def cursor(self, listing: Listing, key: Key) -> str:
        """Returns the cursor of a position in a list, as the gateway makes it."""
        return self.state.resources.of(Cursors).encode(listing.binding(), key)

    async def result(self, mutation: str, given: Mapping[str, Any], **options: Any) -> Any:
        """Calls a mutation, e.g. `result("createCategory", {...})`. Returns its union member."""
        text = MUTATIONS[mutation]
        return (await self.data(text, {"input": dict(given)}, **options))[mutation]


def running(
    settings: Settings, *, clock: Clock | None = None, commands: Commands | None = None
) -> AbstractAsyncContextManager[GatewayClient]:
    """Starts a gateway, and stops it at the end of the block."""
    return running_as(GatewayClient, settings, clock=clock, commands=commands)


_CATEGORY = "... on CategoryPayload { category { id slug name breadcrumbs { categoryId slug name } parent { id } } }"
_PRODUCT = (
    "... on ProductPayload { product { __typename id sku title nonce description "
    "pricing { list { amount currency } retail { amount } savings { amount } pctSavings } "
    "categories { slug } properties { name value } issueDate } }"
)
_NOT_FOUND = "... on NotFound { missingId }"
_INVALID = f"{_NOT_FOUND} ... on InvalidInput {{ path }}"
_EDIT_CONFLICT = "... on ProductEditConflict { current { title nonce } }"
_DELETED = "... on DeletedPayload { deletedId }"
_ACCOUNT = "... on AccountPayload { account { id name balance { amount currency } pendingTransfers { id } } }"
_TRANSFER = (
    "... on TransferPayload { transfer { id state amount { amount currency } "
    "source { id name } destination { id name } } }"
)
_CART = (
    "cart { id status items { sku quantity title unitPrice { amount currency } lineTotal { amount } product { sku } } "
    "total { amount currency } lastModified expiresAt }"
)
_STOCK = "product { sku stock { available reserved sold } }"
_ORDER = "order { id placedAt items { sku quantity title lineTotal { amount } } total { amount } paymentReference }"
_CONTENT = (
    "... on ContentPayload { content { __typename id slug path title tags nonce author { userId name } created updated "
    "... on Page { text } ... on BlogEntry { text publishOn } ... on Section { kind } } }"
)
_CONTENT_CONFLICT = "... on EditConflict { current { title nonce } baseText diff mergedText }"
_DISCUSSION = "... on DiscussionPayload { discussion { id storage commentCount } }"
_COMMENT = (
    "... on CommentPayload { comment { id slug depth text html deleted posted edited replyCount "
    "author { userId name } parent { slug } } }"
)
_USER = "... on UserPayload { user { id name } }"
_POST = "... on PostPayload { post { id } }"
_STACK = "... on StackPayload { stack { id category itemId name description image quantity } }"
_TRADE = (
    "... on TradePayload { trade { id state from to offers { category itemId quantity } "
    "wants { category itemId quantity } } }"
)
_CHARACTER = (
    "... on CharacterPayload { character { id name gold location { locationId name characters { characterId name } "
    "inventory { id contents { id } } } inventory { id contents { id } } armor { head { id } } "
    "weapons { left { id } right { id } both { id } } } }"
)
_GONE = f"... on ItemGone {{ itemId }} ... on LimitReached {{ limit }} {_NOT_FOUND}"
_NOT_ENOUGH = "... on NotEnough { available }"
_INACTIVE = "... on CartInactive { status }"
_SHORT = "... on InadequateInventory { sku available }"


_MESSAGE = "... on UserError { message }"


# The inputs that several mutations share.
_INPUTS = {
    **dict.fromkeys(("addTags", "removeTags"), "Tags"),
    **dict.fromkeys(("addToCircle", "removeFromCircle"), "Circle"),
    **dict.fromkeys(("block", "unblock"), "Block"),
    **dict.fromkeys(("acceptTrade", "cancelTrade"), "Trade"),
    **dict.fromkeys(("pickUp", "drop", "unequip"), "Item"),
    **dict.fromkeys(("takeOut", "putIn"), "Container"),
    "deactivateCampaign": "Campaign",
    "recordAdEvent": "AdEvent",
}


def _mutation(name: str, selection: str) -> str:
    kind = _INPUTS.get(name, name[0].upper() + name[1:])
    return f"mutation ($input: {kind}Input!) {{ {name}(input: $input) {{ __typename {_MESSAGE} {selection} }} }}"


MUTATIONS = {
    name: _mutation(name, selection)
    for name, selection in {
        "createCategory": f"{_CATEGORY} {_INVALID} ... on SlugTaken {{ slug }}",
        "renameCategory": f"{_CATEGORY} {_INVALID} ... on SlugTaken {{ slug }}",
        "moveCategory": f"{_CATEGORY} {_NOT_FOUND}",
        "deleteCategory": f"{_DELETED} {_NOT_FOUND}",
        "createProduct": f"{_PRODUCT} {_INVALID} ... on SkuTaken {{ sku }}",
        "updateProduct": f"{_PRODUCT} {_INVALID} {_EDIT_CONFLICT}",
        "deleteProduct": f"{_DELETED} {_NOT_FOUND} {_EDIT_CONFLICT}",
        "restock": f"... on StockPayload {{ {_STOCK} }} {_SHORT} {_INVALID}",
        "createCart": f"... on CartPayload {{ {_CART} }} {_NOT_FOUND}",
        "addItemToCart": f"... on CartPayload {{ {_CART} }} {_INACTIVE} {_SHORT} {_INVALID}",
        "updateCartItem": f"... on CartPayload {{ {_CART} }} {_INACTIVE} {_SHORT} {_INVALID}",
        "claimCart": f"... on CartPayload {{ {_CART} }} {_INACTIVE} {_NOT_FOUND}",
        "checkout": (
            f"... on CheckoutPayload {{ {_CART} {_ORDER} }} {_INACTIVE} {_NOT_FOUND} "
            "... on PaymentPending { cart { id status } }"
        ),
        "openAccount": f"{_ACCOUNT} ... on InvalidInput {{ path }}",
        "deposit": f"{_ACCOUNT} {_INVALID}",
        "transfer": f"{_TRANSFER} {_INVALID}",
        "createSection": f"{_CONTENT} {_INVALID} ... on SlugTaken {{ slug }}",
        "createPage": f"{_CONTENT} {_INVALID} ... on SlugTaken {{ slug }}",
        "openDiscussion": f"{_DISCUSSION} {_NOT_FOUND}",
        "postComment": f"{_COMMENT} {_INVALID}",
        "editComment": f"{_COMMENT} {_INVALID}",
        "deleteComment": f"{_COMMENT} {_INVALID}",
        "createBlogEntry": f"{_CONTENT} {_INVALID} ... on SlugTaken {{ slug }}",
        "editText": f"{_CONTENT} {_INVALID} {_CONTENT_CONFLICT}",
        "editMetadata": f"{_CONTENT} {_INVALID} {_CONTENT_CONFLICT} ... on SlugTaken {{ slug }}",
        "restoreRevision": f"{_CONTENT} {_INVALID} {_CONTENT_CONFLICT}",
        "addTags": f"{_CONTENT} {_INVALID}",
        "removeTags": f"{_CONTENT} {_INVALID}",
        "join": f"{_USER} ... on InvalidInput {{ path }}",
        **dict.fromkeys(
            ("updateProfile", "addToCircle", "removeFromCircle", "block", "unblock"), f"{_USER} {_INVALID}"
        ),
        **dict.fromkeys(("createPost", "commentOnPost", "vote", "deletePostComment"), f"{_POST} {_INVALID}"),
        "deletePost": f"{_DELETED} {_NOT_FOUND}",
        "grant": f"{_STACK} ... on InvalidInput {{ path }}",
        **dict.fromkeys(("consume", "transferStack"), f"{_STACK} {_INVALID} {_NOT_ENOUGH}"),
        **dict.fromkeys(("offerTrade", "acceptTrade", "cancelTrade"), f"{_TRADE} {_INVALID} {_NOT_ENOUGH}"),
        "createCharacter": f"{_CHARACTER} ... on LimitReached {{ limit }} ... on InvalidInput {{ path }}",
        "move": f"{_CHARACTER} ... on LimitReached {{ limit }} {_NOT_FOUND}",
        **dict.fromkeys(
            ("pickUp", "drop", "takeOut", "putIn", "wear", "wield", "unequip", "give"), f"{_CHARACTER} {_GONE}"
        ),
        **dict.fromkeys(("buy", "sell"), f"{_CHARACTER} {_GONE} ... on InsufficientGold {{ price gold }}"),
        "moveCharacter": "... on MoveCharacterPayload { character { id name location { locationId name } } "
        f"from {{ id name }} to {{ id name characters {{ name }} }} }} ... on LimitReached {{ limit }} {_NOT_FOUND}",
        "deleteCharacter": "... on DeleteCharacterPayload { deletedId location { id name inventory { id } } } "
        f"... on LimitReached {{ limit }} {_NOT_FOUND}",
        "spawnCharacter": f"{_CHARACTER} ... on LimitReached {{ limit }} {_INVALID}",
        "placeAd": "... on AdZonePayload { zone { id siteId zoneId ads { campaignId adUnitId ecpm keywords } } } "
        "... on InvalidInput { path }",
        "serveAds": "... on ServedAdsPayload { ads { campaignId adUnitId ecpm keywords } } "
        "... on InvalidInput { path }",
        "recordAdEvent": "... on AdEventPayload { recorded } ... on InvalidInput { path }",
        "deactivateCampaign": f"... on CampaignPayload {{ zones }} {_NOT_FOUND}",
        "deleteContent": f"{_DELETED} {_NOT_FOUND} {_CONTENT_CONFLICT}",
    }.items()
}


def new_key() -> str:
    """Returns an idempotency key that no other test has, so that the order of the tests changes nothing."""
    return f"key-{next(_numbers)}"


def category_input(**fields: Any) -> dict[str, Any]:
    """A valid `CreateCategoryInput`."""
    number = next(_numbers)
    return {"name": f"Category {number}", "slug": f"category-{number}", **fields}


def product_input(**fields: Any) -> dict[str, Any]:
    """A valid `CreateProductInput`."""
    number = next(_numbers)
    return {
        "sku": f"SKU-{number}",
        "type": "Audio Album",
        "title": f"Album {number}",
        "pricing": {"list": {"amount": 1200}, "retail": {"amount": 1100}},
        "details": {"artist": "John Coltrane", "genres": ["Jazz"], "tracks": ["Acknowledgement"]},
        **fields,
    }


async def create_category(gateway: GatewayClient, **fields: Any) -> dict[str, Any]:
    result = await gateway.result("createCategory", category_input(**fields))
    assert result["__typename"] == "CategoryPayload", result
    found: dict[str, Any] = result["category"]
    return found


async def create_product(gateway: GatewayClient, **fields: Any) -> dict[str, Any]:
    result = await gateway.result("createProduct", product_input(**fields))
    assert result["__typename"] == "ProductPayload", result
    found: dict[str, Any] = result["product"]
    return found


def stops() -> Iterator[int]:
    """Yields the numbers of changes to crash after, or of commands to pause before."""
    return itertools.count(0)


def part_of_stops(part: int, *, of: int) -> Iterator[int]:
    """Yields one of so many equal parts of the stops, so that a test's cases together take each stop once.

    Any number selects a part. In a soak, yields all stops.
    """
    return stops() if IS_SOAK else itertools.islice(stops(), part % of, None, of)


def half_of_stops(*, odd: bool) -> Iterator[int]:
    """Yields every second stop, so that two tests take one half each. In a soak, yields all of them."""
    return part_of_stops(int(odd), of=2)


def stops_of(*, jobs_first: bool) -> Iterator[int]:
    """Yields all stops if the jobs run before the repeated call, and every second stop otherwise."""
    return stops() if jobs_first else half_of_stops(odd=True)
