"""Payloads lead to what their write has changed, so that client stores need no further read."""

from __future__ import annotations

from typing import Any, cast

import pytest
from graphql import GraphQLObjectType, get_named_type

from portico.schema.analytics.analysts import ANALYST
from portico.schema.roles import Role
from portico.testing.kits import merged, mutation_text
from tests.ads.support.ads import SITE, ZONE, ad, place
from tests.analytics.support.log_events import event
from tests.game.support.scene import action, add_temple
from tests.game.support.stacks import bag, give, goods, keyed, offer
from tests.shop.support.shop import add_input, checkout_input, stock_up, update_input
from tests.social.support.social import join
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, create_category, create_product
from tests.support.kits import kits

_SCHEMA = SCHEMA._schema
CASES = merged([kit.inputs for kit in kits().values()])
# What each added field shows, by its type.
_SHOWN = {
    "Viewer": "subject user { id } cart { id } accounts { id } characters { id }",
    "Location": "id version characters { id } inventory { id }",
    "Character": "id gold inventory { id }",
    "Product": "id",
    "Stack": "id quantity heldIn { id }",
    "PostComment": "id text",
    "Category": "id",
    "AdZone": "id ads { id }",
    "AdProfile": "id",
}
_GIVEN = {"taggedEdge": '(tag: "news")'}


def _payload_of(mutation: str) -> GraphQLObjectType:
    assert _SCHEMA.mutation_type is not None
    union: Any = get_named_type(_SCHEMA.mutation_type.fields[mutation].type)
    (payload,) = (found for found in union.types if found.name.endswith("Payload"))
    return cast("GraphQLObjectType", payload)


def _selection(mutation: str) -> str:
    """Selects every field of the payload but the objects that the tests of the domains show."""
    parts = []
    for name, field in _payload_of(mutation).fields.items():
        inner: Any = get_named_type(field.type)
        if inner.name.endswith("Edge"):
            parts.append(f"{name}{_GIVEN.get(name, '')} {{ cursor node {{ __typename }} }}")
        elif isinstance(inner, GraphQLObjectType) and inner.name in _SHOWN:
            parts.append(f"{name} {{ {_SHOWN[inner.name]} }}")
    return f"... on {_payload_of(mutation).name} {{ __typename {' '.join(parts)} }}"


@pytest.mark.sample(6)
@pytest.mark.parametrize("mutation", CASES)
async def test_every_field_of_a_payload_can_be_read_also_by_a_repeated_call(
    gateway: GatewayClient, mutation: str
) -> None:
    given, _ = await CASES[mutation](gateway)
    text = mutation_text(_SCHEMA, mutation, _selection(mutation))
    values = given if isinstance(given, list) else {**given, "idempotencyKey": "key"}

    first = (await gateway.data(text, {"input": values}))[mutation]

    assert first["__typename"].endswith("Payload")
    if not isinstance(given, list):
        assert (await gateway.data(text, {"input": values}))[mutation] == first


async def test_a_move_shows_both_rooms_and_the_viewer(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db)
    rooms = "locations { name characters { name } } viewer { characters { location { name } } }"

    moved = await _result(gateway, "move", action(temple, "move"), rooms)

    assert [room["name"] for room in moved["locations"]] == ["Market", "Temple"]
    own = temple.me["name"]
    assert [own in {one["name"] for one in room["characters"]} for room in moved["locations"]] == [True, False]
    assert moved["viewer"]["characters"] == [{"location": {"name": "Market"}}]


async def test_a_purchase_shows_the_shopkeeper(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db)
    keeper = "shopkeeper { name gold inventory { name } } locations { name }"

    bought = await _result(gateway, "buy", action(temple, "buy"), keeper)

    assert bought["shopkeeper"]["name"] == "Smith"
    assert bought["shopkeeper"]["inventory"] == []
    assert bought["locations"] == [{"name": "Temple"}]


async def test_a_character_is_a_row_of_the_list_that_game_masters_see(gateway: GatewayClient) -> None:
    temple = await add_temple(gateway.db)
    shown = "characterEdge { cursor node { id } }"

    dropped = await _result(gateway, "drop", action(temple, "drop"), shown)
    player = gateway.token("tester", [])
    moved = await _result(gateway, "move", action(temple, "move"), shown, token=player)

    rows = await gateway.data("{ characters(first: 100) { edges { cursor node { id } } } }")
    assert dropped["characterEdge"] in rows["characters"]["edges"]
    assert moved["characterEdge"] is None


async def test_a_new_member_is_a_row_of_the_directory(gateway: GatewayClient) -> None:
    await join(gateway.db, "zoe", "ann")
    shown = "userEdge { cursor node { id } }"

    joined = await _result(gateway, "join", {"name": "Mia"}, shown)

    rows = (await gateway.data("{ users { edges { cursor node { id } } } }"))["users"]["edges"]
    assert rows[1] == joined["userEdge"]


async def test_a_transfer_shows_both_stacks_with_their_inventories(gateway: GatewayClient) -> None:
    await give(gateway.db, "tester", "sword", 5)
    given = keyed(**{"from": bag("tester"), "to": bag("tester", "bank"), "stack": goods("sword", 5)})
    stacks = "stack { quantity heldIn { name } } from { quantity heldIn { name stacks { nodes { id } } } }"

    moved = await _result(gateway, "transferStack", given, stacks)

    assert moved["stack"] == {"quantity": 5, "heldIn": {"name": "bank"}}
    assert moved["from"] == {"quantity": 0, "heldIn": {"name": "bag", "stacks": {"nodes": []}}}


async def test_a_trade_shows_the_stacks_of_the_viewer(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "sword", 5)
    await give(gateway.db, "tester", "coin", 10)
    trade = await offer(gateway, "mara", "tester", [goods("sword", 2)], [goods("coin", 6)])
    shown = "stacks { itemId quantity heldIn { owner } } tradeEdge { cursor node { id } }"

    accepted = await _result(gateway, "acceptTrade", keyed(id=trade), shown, token=gateway.token("tester", []))

    owner = {"owner": "tester"}
    assert accepted["stacks"] == [
        {"itemId": "sword", "quantity": 2, "heldIn": owner},
        {"itemId": "coin", "quantity": 4, "heldIn": owner},
    ]
    listed = (await gateway.data("{ viewer { trades { edges { cursor node { id } } } } }"))["viewer"]["trades"]
    assert accepted["tradeEdge"]["node"] == listed["edges"][0]["node"]
    await _assert_same_place(gateway, "viewer { trades(after: $after) { nodes { id } } }", accepted["tradeEdge"])


async def test_a_cart_shows_the_stock_of_a_product_that_it_has_no_more(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=10)
    cart = (await gateway.result("createCart", {}))["cart"]["id"]
    await gateway.result("addItemToCart", add_input(cart, sku, 3))
    shown = "product { sku stock { available } } viewer { cart { items { sku } } }"

    removed = await _result(gateway, "updateCartItem", update_input(cart, sku, 3, 0), shown)

    assert removed["product"] == {"sku": sku, "stock": {"available": 10}}
    assert removed["viewer"] == {"cart": {"items": []}}


@pytest.mark.usefixtures("provider")
async def test_a_checkout_shows_the_order_in_the_list_of_orders(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway, units=10)
    cart = (await gateway.result("createCart", {}))["cart"]["id"]
    await gateway.result("addItemToCart", add_input(cart, sku, 1))
    shown = "orderEdge { cursor node { id } } viewer { cart { id } orders { edges { node { id } } } }"

    paid = await _result(gateway, "checkout", checkout_input(cart), shown)

    assert paid["viewer"] == {"cart": None, "orders": {"edges": [{"node": paid["orderEdge"]["node"]}]}}
    await _assert_same_place(gateway, "viewer { orders(after: $after) { nodes { id } } }", paid["orderEdge"])


async def test_a_comment_on_a_post_shows_itself_and_its_place(gateway: GatewayClient) -> None:
    await join(gateway.db, "tester")
    detail = {"detail": {"status": {"text": "Hello"}}}
    made = await _result(gateway, "createPost", detail, "post { id } postEdge { cursor month node { id } }")
    post = made["post"]["id"]
    shown = "comment { id text by { name } } commentEdge { cursor node { id } } post { commentCount }"

    said = await _result(gateway, "commentOnPost", {"postId": post, "text": "Hi"}, shown)

    assert made["postEdge"]["node"] == {"id": post}
    assert (said["comment"]["text"], said["post"]["commentCount"]) == ("Hi", 1)
    assert said["commentEdge"]["node"] == {"id": said["comment"]["id"]}
    query = "query ($id: ID!) { node(id: $id) { ... on Post { comments { edges { cursor node { id } } } } } }"
    (row,) = (await gateway.data(query, {"id": post}))["node"]["comments"]["edges"]
    assert row["node"] == said["commentEdge"]["node"]

    gone = {"postId": post, "commentId": said["comment"]["id"]}
    deleted = await _result(gateway, "deletePostComment", gone, "deletedCommentId comment { id }")
    assert deleted == {"deletedCommentId": said["comment"]["id"], "comment": None}


async def test_an_edit_shows_the_categories_that_a_product_has_left(gateway: GatewayClient) -> None:
    left, kept = [(await create_category(gateway))["id"] for _ in range(2)]
    product = await create_product(gateway, categoryIds=[left, kept])
    shown = "product { categories { id } nonce } from { id products { nodes { id } } }"

    given = {"id": product["id"], "nonce": product["nonce"], "categoryIds": [kept]}
    edited = await _result(gateway, "updateProduct", given, shown)

    assert edited["from"] == [{"id": left, "products": {"nodes": []}}]
    assert edited["product"]["categories"] == [{"id": kept}]
    renamed = {"id": product["id"], "nonce": edited["product"]["nonce"], "title": "New"}
    assert (await _result(gateway, "updateProduct", renamed, "from { id }"))["from"] == []


async def test_a_written_node_shows_its_rows(gateway: GatewayClient) -> None:
    section = {"kind": "BLOG", "slug": "blog", "title": "Blog"}
    edges = "content { id } contentEdge { cursor node { id } } entryEdge { cursor }"
    blog = await _result(gateway, "createSection", section, edges)
    tagged_as = 'news: taggedEdge(tag: "news") { cursor } old: taggedEdge(tag: "x") { cursor }'
    rows = f"contentEdge {{ cursor }} entryEdge {{ cursor }} {tagged_as}"
    entry = {"blogId": blog["content"]["id"], "slug": "one", "title": "One", "text": "Hello"}
    draft = await _result(gateway, "createBlogEntry", entry, f"content {{ id }} {rows}")
    published = {**entry, "slug": "two", "title": "Two", "tags": ["news"], "publishOn": "2020-01-01T00:00:00Z"}
    made = await _result(gateway, "createBlogEntry", published, rows)

    page = "{ edges { cursor node { id } } }"
    data = await gateway.data(
        f"""query ($id: ID!) {{ rootSections {page} contentByTag(tag: "news") {page}
        node(id: $id) {{ ... on Section {{ children {page} entries {page} }} }} }}""",
        {"id": blog["content"]["id"]},
    )
    assert data["rootSections"]["edges"] == [blog["contentEdge"]]
    assert blog["entryEdge"] is None
    listed = {name: [row["cursor"] for row in found["edges"]] for name, found in data["node"].items()}
    assert listed == {
        "children": [draft["contentEdge"]["cursor"], made["contentEdge"]["cursor"]],
        "entries": [made["entryEdge"]["cursor"]],
    }
    assert [row["cursor"] for row in data["contentByTag"]["edges"]] == [made["news"]["cursor"]]
    assert [draft["entryEdge"], draft["news"], made["old"]] == [None, None, None]

    given = {"id": draft["content"]["id"], "tags": ["news"]}
    tagged = await _result(gateway, "addTags", given, rows)
    first = (await gateway.data(f'{{ contentByTag(tag: "news") {page} }}'))["contentByTag"]["edges"]
    assert tagged["news"]["cursor"] in [row["cursor"] for row in first]
    untagged = await _result(gateway, "removeTags", given, f"content {{ id }} {rows}")
    assert (untagged["content"], untagged["news"]) == (draft["content"], None)


async def test_a_page_at_the_root_is_a_row_of_what_is_at_the_root(gateway: GatewayClient) -> None:
    given = {"slug": "about", "title": "About", "text": "Hello"}

    made = await _result(gateway, "createPage", given, "contentEdge { cursor }")

    found = await gateway.data("{ rootContent { edges { cursor } } rootSections { edges { cursor } } }")
    assert found == {"rootContent": {"edges": [made["contentEdge"]]}, "rootSections": {"edges": []}}


async def test_a_deactivated_campaign_shows_its_former_zones(gateway: GatewayClient) -> None:
    await place(gateway, ad(), ad("other:campaign", "top"), zone="one")
    await place(gateway, ad(), zone="two")

    shown = "zones changedZones { zoneId ads { campaignId } }"
    ended = await _result(gateway, "deactivateCampaign", {"campaignId": "acme:spring"}, shown)

    assert ended["zones"] == 2
    assert sorted(ended["changedZones"], key=lambda zone: str(zone["zoneId"])) == [
        {"zoneId": "one", "ads": [{"campaignId": "other:campaign"}]},
        {"zoneId": "two", "ads": []},
    ]


async def test_a_creative_shows_the_zones_of_its_ad(gateway: GatewayClient) -> None:
    await place(gateway, ad(), zone="one")
    await place(gateway, ad(), ad("other:campaign"), zone="two")
    await place(gateway, ad(unit="side"), ad("other:campaign"), zone="three")
    creative = {"text": "Spring is here.", "link": "https://acme.example"}
    given = {"campaignId": "acme:spring", "adUnitId": "banner", **creative}
    rows = "creative { id } changedZones { zoneId ads { creative { id } } } one: changedZones(first: 1) { id }"

    found = await _result(gateway, "setAdCreative", given, rows)

    shown = {"creative": {"id": found["creative"]["id"]}}
    assert sorted(found["changedZones"], key=lambda zone: str(zone["zoneId"])) == [
        {"zoneId": "one", "ads": [shown]},
        {"zoneId": "two", "ads": [shown, {"creative": None}]},
    ]
    assert len(found["one"]) == 1


async def test_calls_for_a_browser_show_its_profile_to_advertisers_only(gateway: GatewayClient) -> None:
    await place(gateway, ad(dailyCap=5))
    profile = 'profile { id events(advertiser: "acme", kind: IMPRESSION) { adUnitId } }'
    served = {"siteId": SITE, "zoneId": ZONE, "userId": "ann"}
    seen = {**served, "kind": "IMPRESSION", "campaignId": "acme:spring", "adUnitId": "banner"}

    first = await _result(gateway, "serveAds", served, profile)
    second = await _result(gateway, "recordAdEvent", seen, profile)

    query = f'{{ adProfile(userId: "ann") {profile.removeprefix("profile")} }}'
    assert second["profile"] == (await gateway.data(query))["adProfile"]
    assert [len(one["profile"]["events"]) for one in (first, second)] == [1, 2]
    assert first["profile"]["id"] == second["profile"]["id"]
    for token, given in ((gateway.token("ann", []), served), (gateway.token(), {**served, "userId": None})):
        assert (await _result(gateway, "serveAds", given, profile, token=token))["profile"] is None


async def test_new_log_events_show_their_rows_to_analysts(gateway: GatewayClient) -> None:
    events = [event(path=f"/{number}", eventId=str(number)) for number in range(2)]
    rows = "recorded logEventEdges { cursor node { id path } }"

    both = gateway.as_caller("both", Role.SERVICE, ANALYST)
    recorded = await _result(both, "logEvents", events, rows)

    listed = (await both.data("{ logEvents(filter: {}) { edges { cursor node { id path } } } }"))["logEvents"]["edges"]
    assert sorted(map(str, recorded["logEventEdges"])) == sorted(map(str, listed))
    assert (await _result(both, "logEvents", events, rows)) == {"recorded": 2, "logEventEdges": []}
    answer = await _result(gateway, "logEvents", events, rows, token=gateway.token("log", [Role.SERVICE]))
    assert answer["logEventEdges"] is None


async def _result(gateway: GatewayClient, mutation: str, given: Any, shown: str, **options: Any) -> Any:
    """Calls a mutation. Returns these fields of its payload."""
    text = mutation_text(_SCHEMA, mutation, f"... on {_payload_of(mutation).name} {{ {shown} }}")
    found = (await gateway.data(text, {"input": given}, **options))[mutation]
    assert found.pop("__typename").endswith("Payload"), found
    return found


async def _assert_same_place(gateway: GatewayClient, selection: str, edge: Any) -> None:
    """Asserts that nothing follows the only row of a list."""
    data = await gateway.data(f"query ($after: String) {{ {selection} }}", {"after": edge["cursor"]})
    (found,) = data["viewer"].values()
    assert found == {"nodes": []}
