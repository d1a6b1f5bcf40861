# ruff: noqa: E501 - an operation is easier to read in one line
"""The worst operations of each domain over `large_data`, and the worst bodies of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.worst_operation import Operation
from tests.gateway.support.large_data import CALLER, EMOJI, MARKDOWN
from tests.support.aliases import aliased


@dataclass(frozen=True)
class Attack:
    """An operation with this many parts, or with as many as the limits allow."""

    operation: Operation
    parts: int | None = None


def whole(text: str, declared: str = "") -> Attack:
    """An operation of one part: its answer, if it is whole, is among the largest."""
    return Attack(Operation(text, declared=declared), 1)


def wide(part: str, declared: str = "", before: str = "", after: str = "") -> Attack:
    return Attack(Operation(part, declared=declared, before=before, after=after))


ITEM = "id name description quantity weight price bonus contents { id name }"
POST = "nodes { ... on StatusPost { text latestComments(last: 3) { text } } }"
RANGE = 'from: "2026-03-05T00:00:00Z", to: "2026-03-11T22:40:00Z"'
INTROSPECTION = "{ __schema { types { name fields { name type { NAMES } args { name type { NAMES } } } } } }".replace(
    "NAMES", "kind name ofType { " * 6 + "name" + " }" * 6
)

# Each domain, with at least one operation whose answer is whole, and one that is as large as the limits allow.
ATTACKS: dict[str, Sequence[Attack]] = {
    "catalog": (
        whole("products(first: 50) { nodes { title description properties { name value } } }"),
        whole("products(first: 100) { nodes { title description } }"),
        whole('product(sku: "p1") { ' + aliased("description", 60) + " }"),
        whole('product(sku: "p1") { ' + aliased("description", 240) + " }"),
        wide(
            "a%n: products(first: %p) { nodes { id sku title properties { name value } categories { name products(first: 5) { nodes { description } } } } }"
        ),
    ),
    "shop": (
        whole("viewer { orders(first: 15) { nodes { id items { sku title quantity lineTotal { amount } } } } }"),
        whole("viewer { cart { items { title product { title description properties { name value } } } } }"),
        wide(
            "a%n: cart { id items { sku title unitPrice { amount } product { title description stock { available } } } }",
            before="viewer {",
            after="}",
        ),
        wide(
            "a%n: orders(first: %p) { nodes { items { sku title lineTotal { amount } } } }",
            before="viewer {",
            after="}",
        ),
    ),
    "accounts": (
        wide(
            "a%n: accounts { id name balance { amount } pendingTransfers { id source { name } } }",
            before="viewer {",
            after="}",
        ),
    ),
    "content": (
        whole("node(id: $page) { ... on Page { " + aliased("html", 3) + " } }", "$page: ID!"),
        whole("node(id: $page) { ... on Page { revisions(first: 18) { nodes { nonce text } } } }", "$page: ID!"),
        whole('contentByTag(tag: "large", first: 18) { nodes { ... on Page { text } } }'),
        whole('contentByTag(tag: "parts", first: 18) { nodes { ... on Page { html } } }'),
        whole('contentByTag(tag: "large", first: 3) { nodes { ... on Page { html } } }'),
        wide(
            'a%n: contentByTag(tag: "large", first: %p) { nodes { title path ... on Page { text html revisions(first: 5) { nodes { text } } } } }'
        ),
    ),
    "comments": tuple(
        attack
        for storage in ("documents", "embedded", "pages")
        for attack in (
            whole(
                f"node(id: ${storage}) {{ ... on Discussion {{ comments(first: 60) {{ nodes {{ text html }} }} }} }}",
                f"${storage}: ID!",
            ),
            wide(
                f"a%n: node(id: ${storage}) {{ ... on Discussion {{ comments(first: %p, order: CHRONOLOGICAL) {{ nodes {{ id slug text html parent {{ text }} }} }} comment(slug: $slug) {{ thread(first: 50) {{ nodes {{ text }} }} }} }} }}",
                f"${storage}: ID!, $slug: String!",
            ),
        )
    ),
    "social": (
        whole(f"user(id: $star) {{ wall(first: 11) {{ {POST} }} }}", "$star: ID!"),
        whole(f"viewer {{ newsFeed(first: 11) {{ {POST} }} }}"),
        whole(f"viewer {{ newsFeed(first: 100) {{ {POST} }} }}"),
        wide(f"a%n: user(id: $star) {{ wall(first: %p) {{ {POST} }} }}", "$star: ID!"),
        wide(f"a%n: newsFeed(first: %p) {{ {POST} }}", before="viewer {", after="}"),
    ),
    "game": (
        whole(
            f"location(id: $room) {{ name description version exits {{ direction }} characters {{ characterId name }} inventory {{ {ITEM} }} }}",
            "$room: ID!",
        ),
        whole(f"viewer {{ characters {{ inventory {{ {ITEM} }} location {{ description }} }} }}"),
        whole(
            f'inventory(owner: "{CALLER}", name: "bag") {{ stacks(first: 100) {{ nodes {{ id name description image quantity }} }} }}'
        ),
        whole(
            "viewer { trades(first: 100) { nodes { id offers { category itemId quantity } wants { category itemId quantity } } } }"
        ),
        wide(
            "a%n: characters(first: 20, locationId: $room) { nodes { name inventory { id name description } } }",
            "$room: ID!",
        ),
        wide(f"a%n: location(id: $room) {{ inventory {{ {ITEM} }} }}", "$room: ID!"),
    ),
    "ads": (
        whole('adZone(siteId: "site", zoneId: "full") { ads { campaignId adUnitId keywords ecpm } }'),
        wide(
            'a%n: chooseAds(siteId: "site", zoneId: "full", keywords: $words, limit: 1) { ads { adUnitId keywords } rejected { reason ad { campaignId adUnitId ecpm keywords } } }',
            "$words: [String!]!",
        ),
        wide('a%n: adZone(siteId: "site", zoneId: "full") { id ads { campaignId adUnitId keywords ecpm } }'),
    ),
    "analytics": (
        whole("logEvents(filter: {}, first: 45) { nodes { id path referrer userAgent } }"),
        wide("a%n: logEvents(filter: {}, first: %p) { nodes { id host path referrer userAgent time } }"),
        wide(f'a%n: hits(site: "shop.example", page: "/", granularity: MINUTE, {RANGE}) {{ points {{ at hits }} }}'),
        wide(f"a%n: pageCounts({RANGE}, limit: 1000) {{ path day hits visitors }}"),
        wide(
            'a%n: sessionStats(userId: "ann", granularity: HOUR, from: "2025-12-01T00:00:00Z", to: "2027-01-15T00:00:00Z") { asOf stats { start sessions total mean } }'
        ),
    ),
    "nodes": (
        wide(
            "a%n: nodes(ids: $products) { ... on Product { title description properties { name value } } }",
            "$products: [ID!]!",
        ),
    ),
    "introspection": (wide(f"... @include(if: true) {INTROSPECTION}"), wide(f"a%n: {INTROSPECTION[2:-2]}")),
}

# Bodies that are refused, or of which a part is as large as a request can be.
BODIES: dict[str, dict[str, Any]] = {
    "a query with thousands of errors": {"query": "{ " + " ".join(f"no{number}" for number in range(10_000)) + " }"},
    "a query with the most tokens, all of them wrong": {"query": "{ " + " ".join(f"n{n}" for n in range(3_990)) + " }"},
    "a query of the largest size": {"query": '{ product(sku: "' + EMOJI * 240_000 + '") { title } }'},
    "a name of the largest size": {"query": "{ " + "x" * 990_000 + " }"},
    "variables of the largest size": {
        "query": "query ($words: [String!]!) { products(filter: { genres: $words }) { nodes { title } } }",
        "variables": {"words": [f"{number:06}" for number in range(90_000)]},
    },
    # Each object takes 23 times the bytes of its text.
    "variables of small objects": {"query": "{ __typename }", "variables": {"unused": [{"a": 0}] * 105_000}},
    "the largest text, shown many times": {
        "query": "mutation ($input: CreatePageInput!) { createPage(input: $input) { ... on ContentPayload { content { ... on Page { "
        + aliased("html", 2)
        + " } } } } }",
        "variables": {"input": {"slug": "SLUG", "title": "Large", "text": MARKDOWN}},
    },
    "the largest post, shown many times": {
        "query": "mutation ($input: CreatePostInput!) { createPost(input: $input) { ... on PostPayload { post { ... on StatusPost { "
        + aliased("text", 11)
        + " } } } } }",
        "variables": {"input": {"detail": {"status": {"text": EMOJI * 100_000}}}},
    },
}
