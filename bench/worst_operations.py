# ruff: noqa: E501 - an operation is easier to read in one line
"""The worst operations of `bench.worst`: of each domain, and for each kind of caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import worst_data, worst_world
from bench.copies import numbered
from bench.worst_arguments import of_arguments
from bench.worst_network import HERMIT, READER, STAR, TALK
from bench.worst_operation import Operation
from bench.worst_world import PLAYER, cart_key
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from portico.resolvers.game.world.locations import MAX_KEEPERS
from portico.schema.kinds import Kind


def operations(known: Mapping[str, str], size: int) -> dict[str, Operation]:
    """Returns the worst operations over the data of `worst_data`, stored for this size."""
    star = Kind.encode_id("User", STAR)
    category, wide = Kind.encode_id("Category", known["category"]), Kind.encode_id("Category", known["wide"])
    return {
        **_of_products(size),
        **_of_typed_texts(),
        **_of_categories(category, wide, star),
        **_of_members(star),
        **_of_blocked(),
        **_of_content(),
        **_of_sections(size),
        **_of_ads(),
        **_of_feeds(),
        **_of_discussions(known, size),
        **_of_the_game(size),
        **_of_inventories(),
        **_of_the_shop(size),
        **_of_accounts(),
        **_of_analytics(),
        **of_arguments(),
    }


def _of_products(size: int) -> dict[str, Operation]:
    return {
        "totals": Operation("a%n: products(first: %p, sort: PRICE_ASC) { totalCount }"),
        "facets": Operation(
            "a%n: products(first: %p, filter: { minPrice: %n }) { facets { types { count } genres { count } categories { count } prices { count } } }"
        ),
        "searches": Operation('a%n: products(filter: { search: "%n" }, sort: RELEVANCE) { nodes { title } }'),
        "pages of products": Operation("a%n: products(first: 100, sort: PRICE_ASC) { nodes { c%n: title } }"),
        "whole products": Operation(
            "a%n: products(first: 100) { nodes { id sku title asin issueDate categories { slug } properties { name } } }"
        ),
        "filters of two conditions": Operation(
            "a%n: products(first: 1, filter: { type: GENERAL, minPrice: 1250, minPctSavings: %n }) { pageInfo { endCursor } }"
        ),
        "filters that exclude each other": Operation(
            'a%n: products(first: 1, filter: { type: GENERAL, genres: ["%n", "half"], inStock: false, minPrice: %n }, sort: TITLE_ASC) { pageInfo { endCursor } }'
        ),
        "filters below categories": Operation(
            "a%n: categories(first: 10) { nodes { products(first: 1, filter: { type: FILM, minPrice: %n }) { pageInfo { endCursor } } } }",
            most=30,
        ),
        "related products": Operation(
            "a%n: node(id: %i) { ... on Product { related(first: 1) { c%n: sku } } }",
            ids=[Kind.encode_id("Product", f"C-{n}") for n in range(size)],
        ),
        "pages of related products": Operation(
            "a%n: products(first: %p) { nodes { related(first: 20) { c%n: title } } }"
        ),
        "images of products": Operation(
            "a%n: products(first: %p) { nodes { images(first: 20) { url thumbnailUrl(width: 320) c%n: alt } } }"
        ),
        "products by SKU": Operation("a%n: product(sku: %i) { c%n: title }", ids=[f"C-{n}" for n in range(size)]),
        "different nodes": Operation(
            "a%n: nodes(ids: %l) { id ... on Product { title } }",
            ids=[Kind.encode_id("Product", f"C-{n}") for n in range(min(size, 5_000))],
        ),
    }


def _of_typed_texts() -> dict[str, Operation]:
    """Returns searches for what people type."""
    return {
        "typed products": Operation(
            'a%n: products(first: 1, filter: { typed: "bel%n cor%n del%n fen%n gar%n lan%n mer%n b" }) { pageInfo { endCursor } }'
        ),
        "typed products of common words": Operation(
            'a%n: products(first: 1, filter: { typed: "norren silver torvan b" }) { pageInfo { endCursor } }'
        ),
        "suggestions": Operation('a%n: suggest(text: "norren silver torvan corlow b", first: 1) { c%n: kind }'),
        "many suggestions": Operation(
            'a%n: suggest(text: "norren silver b", first: 20) { c%n: title match { text } node { id } }'
        ),
    }


def _of_categories(category: str, wide: str, star: str) -> dict[str, Operation]:
    below: dict[str, Any] = {"declared": "$id: ID!", "variables": {"id": category}}
    return {
        "products of categories": Operation(
            "a%n: categories(first: 10) { nodes { products(first: 5) { nodes { title } } } }",
            most=30,
        ),
        "products below one category": Operation(
            "a%n: node(id: $id) { ... on Category { products(first: %p) { pageInfo { endCursor } } } }", **below
        ),
        "products below a category that is too wide": Operation(
            "a%n: node(id: $id) { ... on Category { products(first: %p) { pageInfo { endCursor } } } }",
            {"id": wide},
            "$id: ID!",
            refused="BAD_USER_INPUT",
        ),
        "descendants": Operation(
            "a%n: node(id: $id) { ... on Category { descendants(first: 100) { nodes { c%n: name } } } }", **below
        ),
        "parents": Operation(
            "a%n: node(id: $id) { ... on Category { descendants(first: 100) { nodes { parent { children(first: 1) { nodes { slug } } } } } } }",
            **below,
        ),
        "a hundred nodes": Operation(
            "a%n: nodes(ids: $ids) { id }",
            {"ids": [star, category, *(Kind.encode_id("Product", f"C-{number}") for number in range(98))]},
            "$ids: [ID!]!",
        ),
    }


def _of_members(star: str) -> dict[str, Operation]:
    user: dict[str, Any] = {"declared": "$id: ID!", "variables": {"id": star}}
    return {
        "walls": Operation("a%n: user(id: $id) { wall(first: %p) { pageInfo { hasNextPage } } }", **user),
        "one post of a wall": Operation(
            "a%n: user(id: $id) { wall(first: 1) { pageInfo { hasNextPage } edges { month } } }", **user
        ),
        "walls from their ends": Operation(
            "a%n: user(id: $id) { wall(last: %p) { pageInfo { hasNextPage } } }", **user
        ),
        "walls by month": Operation('a%n: user(id: $id) { wall(first: 5, month: "201208") { nodes { id } } }', **user),
        "comments of posts": Operation(
            "a%n: user(id: $id) { wall(first: 20) { nodes { comments(first: 5) { nodes { text } } } } }", **user
        ),
        "followers": Operation("a%n: user(id: $id) { followers(first: 100) { nodes { c%n: name } } }", **user),
        "followers of followers": Operation(
            "a%n: user(id: $id) { followers(first: 100) { nodes { followers(first: 1) { nodes { id } } wall(first: 1) { nodes { id } } } } }",
            **user,
        ),
    }


def _of_content() -> dict[str, Operation]:
    return {
        "suggested pages": Operation('a%n: suggest(text: "site", first: 1) { c%n: kind }'),
        "root content": Operation("a%n: rootContent(first: 100) { nodes { c%n: title path } }"),
        "content by tag": Operation('a%n: contentByTag(tag: "news", first: 100) { nodes { c%n: title path } }'),
        "discussions of content": Operation(
            'a%n: contentByTag(tag: "news", first: 100) { nodes { discussion { commentCount } parent { title } } }'
        ),
    }


def _of_blocked() -> dict[str, Operation]:
    """Returns the operations of a member with very many blocks, and those on a post with very many comments."""
    talk: dict[str, Any] = {"declared": "$id: ID!", "variables": {"id": Kind.encode_id("Post", TALK)}}
    hermit: dict[str, Any] = {"caller": (HERMIT,), "before": "viewer {", "after": "}"}
    wall: dict[str, Any] = {
        "declared": "$id: ID!",
        "variables": {"id": Kind.encode_id("User", STAR)},
        "caller": (HERMIT,),
    }
    comments = "a%n: node(id: $id) { ... on StatusPost { comments(first: 100) { nodes { c%n: id } } } }"
    latest = "a%n: node(id: $id) { ... on StatusPost { latestComments(last: 10) { c%n: id } commentCount } }"
    return {
        "comments of a long post": Operation(comments, **talk),
        "comments of a long post, with blocks": Operation(comments, **talk, caller=(HERMIT,)),
        "last comments of a long post, with blocks": Operation(
            comments.replace("first", "last"), **talk, caller=(HERMIT,)
        ),
        "latest comments": Operation(latest, **talk),
        "latest comments, with blocks": Operation(latest, **talk, caller=(HERMIT,)),
        "hidden comments": Operation(
            "a%n: node(id: $id) { ... on StatusPost { hiddenComments(first: %p) { nodes { c%n: commentId } } } }",
            **talk,
            caller=(HERMIT,),
        ),
        "walls, with blocks": Operation("a%n: user(id: $id) { wall(first: %p) { nodes { commentCount } } }", **wall),
        "news feeds, with blocks": Operation("a%n: newsFeed(first: 100) { nodes { c%n: id } }", **hermit),
        "hidden posts": Operation("a%n: hiddenPosts(first: %p) { nodes { c%n: postId } }", **hermit),
        "notifications, with blocks": Operation("a%n: notifications(first: 100) { nodes { c%n: id } }", **hermit),
        "counts of notifications": Operation("a%n: unreadNotificationCount", **hermit),
        "blocked users": Operation("a%n: blockedUsers(first: 100) { nodes { c%n: name } }", **hermit),
        "incoming posts, with blocks": Operation("a%n: incoming(first: 1) { pageInfo { hasNextPage } }", **hermit),
    }


def _of_sections(size: int) -> dict[str, Operation]:
    blog, page = Kind.encode_id("ContentNode", numbered("site", 1)), Kind.encode_id("ContentNode", numbered("page", 0))
    return {
        "entries": Operation(
            "a%n: node(id: $id) { ... on Section { entries(first: 100) { nodes { c%n: title } } children(first: %p) { pageInfo { hasNextPage } } } }",
            {"id": blog},
            "$id: ID!",
        ),
        "revisions": Operation(
            "a%n: node(id: $id) { ... on Page { revisions(first: 100) { nodes { c%n: nonce } } } }",
            {"id": page},
            "$id: ID!",
            caller=("editor", "EDITOR"),
        ),
        "content by path": Operation(
            "a%n: content(path: %i) { c%n: title path }", ids=[f"/site/page-{number}" for number in range(size)]
        ),
    }


def _of_ads() -> dict[str, Operation]:
    words = [f"word {number}" for number in range(500)] + [f"other {number}" for number in range(9_500)]
    zone = f'siteId: "{worst_data.SITE}", zoneId: "full"'
    return {
        "choices of ads": Operation(
            f"a%n: chooseAds({zone}, keywords: $words, limit: 100) {{ __typename }}",
            {"words": words},
            "$words: [String!]!",
        ),
        "rejected ads": Operation(
            f"a%n: chooseAds({zone}, keywords: $words, limit: 1) {{ rejected {{ reason }} }}",
            {"words": words},
            "$words: [String!]!",
            caller=("page", "SERVICE"),
        ),
        "served ads": Operation(
            f'a%n: serveAds(input: {{ siteId: "{worst_data.SITE}", zoneId: "full", userId: "%n", keywords: $words, limit: 100 }}) {{ __typename }}',
            {"words": words},
            "$words: [String!]!",
            kind="mutation",
        ),
        "zones": Operation(
            f'a%n: adZone(siteId: "{worst_data.SITE}", zoneId: "%n") {{ ads {{ ecpm }} }}', caller=("page", "SERVICE")
        ),
    }


def _of_feeds() -> dict[str, Operation]:
    return {
        "news feeds": Operation(
            "a%n: newsFeed(first: 100) { nodes { c%n: id } }", before="viewer {", after="}", caller=(READER,)
        ),
        "incoming posts": Operation(
            "a%n: incoming(first: 1) { pageInfo { hasNextPage } }", before="viewer {", after="}", caller=(STAR,)
        ),
    }


def _of_discussions(known: Mapping[str, str], size: int) -> dict[str, Operation]:
    many = [Kind.encode_id("Discussion", numbered("talk", n)) for n in range(size // worst_data.OBJECTS_AN_EMBEDDED)]
    ids = many or [Kind.encode_id("Discussion", known[EMBEDDED])]
    found = {
        "different discussions": Operation(
            "a%n: node(id: %i) { ... on Discussion { comments(first: %p) { pageInfo { hasNextPage } } } }", ids=ids
        ),
        "counts of discussions": Operation("a%n: node(id: %i) { ... on Discussion { commentCount } }", ids=ids),
    }
    for storage in (DOCUMENTS, EMBEDDED, PAGES):
        one: dict[str, Any] = {
            "declared": "$id: ID!",
            "variables": {"id": Kind.encode_id("Discussion", known[storage])},
        }
        thread, deepest = known[f"{storage} thread"], known[f"{storage} deepest"]
        found |= {
            f"comments, {storage}": Operation(
                "a%n: node(id: $id) { ... on Discussion { comments(first: 100) { nodes { c%n: id } } } }", **one
            ),
            f"first comments, {storage}": Operation(
                "a%n: node(id: $id) { ... on Discussion { comments(first: %p, order: CHRONOLOGICAL, maxDepth: 0) { pageInfo { hasNextPage } } } }",
                **one,
            ),
            f"roots, {storage}": Operation(
                "a%n: node(id: $id) { ... on Discussion { comments(first: 20, maxDepth: 0) { nodes { id } } } }", **one
            ),
            f"threads, {storage}": Operation(
                f'a%n: node(id: $id) {{ ... on Discussion {{ comment(slug: "{thread}") {{ thread(first: 100) {{ nodes {{ c%n: id }} }} replies(first: 1) {{ nodes {{ id }} }} }} }} }}',
                **one,
            ),
            f"ancestors, {storage}": Operation(
                f'a%n: node(id: $id) {{ ... on Discussion {{ comment(slug: "{deepest}") {{ parent {{ parent {{ parent {{ replies(first: 1) {{ nodes {{ id }} }} }} }} }} }} }} }}',
                **one,
            ),
        }
    return found


def _of_the_game(size: int) -> dict[str, Operation]:
    rooms = [Kind.encode_id("Location", numbered("room", n)) for n in range(worst_world.full_rooms(size))]
    keepers = [
        Kind.encode_id("Character", f"{numbered('room', n)}.{keeper}")
        for n in range(worst_world.full_rooms(size))
        for keeper in range(MAX_KEEPERS)
    ]
    halls = [Kind.encode_id("Location", numbered("hall", n)) for n in range(size)]
    item = "{ name description contents { name contents { name contents { name } } } }"
    return {
        "full rooms": Operation(
            f"a%n: location(id: %i) {{ name characters {{ name }} inventory {item} exits {{ direction }} }}", ids=rooms
        ),
        "names of full rooms": Operation("a%n: nodes(ids: %l) { ... on Location { c%n: name } }", ids=rooms),
        "maps": Operation("a%n: worldMap(locationId: %i, steps: 5, first: 100) { c%n: steps }", ids=halls),
        "narrow maps": Operation("a%n: worldMap(locationId: %i, steps: 5, first: 6) { location { name } }", ids=halls),
        "shopkeepers": Operation(f"a%n: character(id: %i) {{ name inventory {item} }}", ids=keepers),
        "names of shopkeepers": Operation("a%n: nodes(ids: %l) { ... on Character { c%n: name } }", ids=keepers),
        "characters of a player": Operation(
            "a%n: characters { c%n: name }", before="viewer {", after="}", caller=(PLAYER,)
        ),
        "all characters": Operation(
            "a%n: characters(first: 100) { nodes { c%n: name } }", caller=("master", "GAME_MASTER")
        ),
    }


def _of_inventories() -> dict[str, Operation]:
    shop = f'inventory(owner: "{worst_world.SHOP.owner}", name: "{worst_world.SHOP.name}")'
    return {
        "stacks": Operation(f"a%n: {shop} {{ stacks(first: 100) {{ nodes {{ c%n: name }} }} }}"),
        "stacks by name": Operation(f"a%n: {shop} {{ stacks(first: %p, sort: NAME) {{ nodes {{ quantity }} }} }}"),
        "stacks by prefix": Operation(
            f'a%n: {shop} {{ stacks(first: %p, namePrefix: "th", category: "kind %n") {{ pageInfo {{ hasNextPage }} }} }}'
        ),
        "numbers of stacks": Operation(f"a%n: {shop} {{ stacks(first: 1) {{ totalCount }} }}"),
        "trades": Operation(
            "a%n: trades(first: 100, state: OFFERED) { nodes { c%n: id } }",
            before="viewer {",
            after="}",
            caller=(PLAYER,),
        ),
    }


def _of_the_shop(size: int) -> dict[str, Operation]:
    carts = [Kind.encode_id("Cart", cart_key(number)) for number in range(worst_world.carts(size))]
    orders = [Kind.encode_id("Order", cart_key(number)) for number in range(worst_world.carts(size))]
    mine: dict[str, Any] = {"before": "viewer {", "after": "}", "caller": (PLAYER,)}
    return {
        "stock": Operation("a%n: products(first: 100) { nodes { stock { available } } }"),
        "carts": Operation("a%n: cart(id: %i) { items { title product { title } } }", ids=carts),
        "totals of carts": Operation("a%n: nodes(ids: %l) { ... on Cart { total { amount } } }", ids=carts),
        "new carts": Operation("a%n: createCart { __typename }", kind="mutation"),
        "full carts": Operation(
            'a%n: addItemToCart(input: { cartId: %i, sku: "C-%n" }) { ... on CartPayload { cart { id } } }',
            ids=carts,
            kind="mutation",
        ),
        "orders": Operation("a%n: orders(first: %p) { nodes { items { title } } }", **mine),
        "orders of all buyers": Operation("a%n: orders(first: 100) { nodes { c%n: id } }", caller=("m", "MERCHANT")),
        "orders with a status": Operation(
            "a%n: orders(first: %p, status: PLACED) { nodes { items { title } history { status } } }",
            caller=("m", "MERCHANT"),
        ),
        "numbers of orders": Operation("a%n: orders(first: 1) { totalCount }", caller=("m", "MERCHANT")),
        "orders by id": Operation("a%n: order(id: %i) { c%n: status items { product { title } } }", ids=orders),
        "ids of orders": Operation("a%n: orders(first: 100) { nodes { c%n: id } }", **mine),
    }


def _of_accounts() -> dict[str, Operation]:
    mine: dict[str, Any] = {"before": "viewer {", "after": "}", "caller": (PLAYER,)}
    return {
        "accounts": Operation("a%n: accounts { c%n: name }", **mine),
        "transfers": Operation("a%n: accounts { pendingTransfers { amount { amount } destination { name } } }", **mine),
        "carts of a viewer": Operation("a%n: cart { id }", **mine),
    }


def _of_analytics() -> dict[str, Operation]:
    analyst: dict[str, Any] = {"caller": ("analyst", "ANALYST")}
    series = f'site: "{worst_world.SERIES.site}", page: "{worst_world.SERIES.page}"'
    found = {
        f"hits by {granularity}": Operation(
            f'a%n: hits({series}, granularity: {granularity}, from: "{begin}", to: "{end}") {{ points {{ hits }} }}',
            **analyst,
        )
        for granularity, (begin, end) in worst_world.LONGEST.items()
    }
    return found | {
        "statistics of sessions": Operation(
            f'a%n: sessionStats(userId: "user", granularity: HOUR, from: "{worst_world.LONGEST["HOUR"][0]}", to: "{worst_world.LONGEST["HOUR"][1]}") {{ stats {{ total }} }}',
            **analyst,
        ),
        "log events": Operation('a%n: logEvents(filter: { path: "/" }, first: 100) { nodes { c%n: host } }', **analyst),
        "counts of pages": Operation(
            'a%n: pageCounts(from: "2024-01-01T00:00:00Z", to: "2027-01-01T00:00:00Z", limit: 1000) { hits }', **analyst
        ),
    }
