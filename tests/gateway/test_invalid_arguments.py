"""A query refuses all its invalid arguments at once, each with its path."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from portico.schema.analytics.analysts import ANALYST
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.kinds import Kind
from tests.support.harness import GatewayClient, create_category

_TIMES = 'from: "1960-01-01T00:00:00Z", to: "2300-01-01T00:00:00Z"'
_LONG = "a" * 1001
_FILTER = (
    f'{{ typeNames: [], genres: [], titleWord: "", titlePrefix: "{_LONG}", properties: [], actor: "{_LONG}", '
    f'typed: "{_LONG}" }}'
)
# A field, its selection, and the paths of its invalid arguments.
FIELDS: dict[str, tuple[str, str, list[str]]] = {
    "a filter, a sort and a page": (
        f'products(filter: {_FILTER}, sort: RELEVANCE, first: 0, last: 0, after: "x")',
        "{ nodes { sku } }",
        [
            "filter.actor",
            "filter.genres",
            "filter.properties",
            "filter.titlePrefix",
            "filter.titleWord",
            "filter.typeNames",
            "filter.typed",
            "sort",
            *("after", "first", "last"),
        ],
    ),
    "a sort and a page": ("products(sort: RELEVANCE, first: 101)", "{ nodes { sku } }", ["first", "sort"]),
    "a page from the end": (
        'categories(first: 0, last: 101, after: "x", before: "x")',
        "{ nodes { id } }",
        ["after", "before", "first", "last"],
    ),
    "a page": ('categories(first: 101, after: "x")', "{ nodes { id } }", ["after", "first"]),
    "suggestions": (f'suggest(text: "{_LONG}", first: 0)', "{ title }", ["first", "text"]),
    "members by name": (f'usersByName(text: "{_LONG}", first: 0)', "{ id }", ["first", "text"]),
    "hits": (f'hits(site: "s", page: "p", granularity: WEEK, {_TIMES})', "{ site }", ["from", "granularity", "to"]),
    "sessions": (
        f'sessionStats(userId: "", granularity: MINUTE, {_TIMES})',
        "{ asOf }",
        ["from", "granularity", "to", "userId"],
    ),
    "counts of pages": (f"pageCounts({_TIMES}, limit: 0)", "{ path }", ["from", "limit", "to"]),
    "log events": (f"logEvents(filter: {{ {_TIMES} }}, first: 0)", "{ nodes { id } }", ["first", "from", "to"]),
    "content with a tag": (
        f'contentByTag(tag: "{_LONG}", last: 0)',
        "{ nodes { id } }",
        ["last", "tag"],
    ),
    "a month of posts": ('publicPosts(month: "1", first: 0)', "{ nodes { id } }", ["first", "month"]),
    "stacks": (
        'inventory(owner: "an analyst")',
        f'{{ stacks(namePrefix: "{_LONG}", first: 0) {{ nodes {{ id }} }} }}',
        ["first", "namePrefix"],
    ),
    "ads": (
        'chooseAds(siteId: "s", zoneId: "z", userId: "", limit: 0)',
        "{ ads { adUnitId } }",
        ["limit", "userId"],
    ),
}


async def invalid(gateway: GatewayClient, field: str, selection: str) -> list[Any]:
    """Returns what the only error says of each invalid argument."""
    answer = await gateway.as_caller("an analyst", ANALYST).ask(f"{{ {field} {selection} }}")
    (error,) = answer.body["errors"]
    assert error["extensions"]["code"] == "BAD_USER_INPUT"
    fields: list[Any] = error["extensions"]["fields"]
    assert error["extensions"]["argument"] == fields[0]["path"]
    assert error["message"] == fields[0]["message"]
    return fields


@pytest.mark.parametrize("name", FIELDS)
async def test_all_invalid_arguments_are_named_at_once(shared: GatewayClient, name: str) -> None:
    field, selection, paths = FIELDS[name]

    found = await invalid(shared, field, selection)

    assert sorted(".".join(one["path"]) for one in found) == sorted(paths)


async def test_an_id_of_something_else_is_an_invalid_value_of_a_filter(gateway: GatewayClient) -> None:
    category = (await create_category(gateway))["id"]
    other, unknown = Kind.encode_id("Product", "P-1"), Kind.encode_id("Category", ObjectId())

    ids = ", ".join(f'"{one}"' for one in (category, other, unknown, "x"))
    found = await invalid(gateway, f"products(filter: {{ categoryIds: [{ids}], genres: [] }})", "{ nodes { sku } }")

    assert [(one["path"], one["code"], one["message"]) for one in found] == [
        (["filter", "categoryIds", "1"], "WRONG_FORMAT", "The id is that of a product, not of a category."),
        (["filter", "categoryIds", "3"], "WRONG_FORMAT", "The id is not that of a category."),
        (["filter", "genres"], "TOO_FEW", "`filter` takes 1 to 50 genres; got 0."),
    ]


async def test_an_id_of_something_else_is_an_invalid_room_of_characters(gateway: GatewayClient) -> None:
    answer = await gateway.as_caller("keeper", GAME_MASTER).ask('{ characters(locationId: "x") { nodes { id } } }')

    (error,) = answer.body["errors"]
    assert error["extensions"] == {"code": "BAD_USER_INPUT", "argument": ["locationId"]}
