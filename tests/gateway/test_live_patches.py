"""Newer answers of live queries as JSON patches, for clients that ask for them."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from portico.gateway.http.patches import patch_between
from tests.support.harness import GatewayClient, create_category, create_product, rename_product
from tests.support.sockets import Socket, subscribe

TITLES = "query @live { products(first: 50, sort: TITLE_ASC) { nodes { id title pricing { retail { amount } } } } }"
NAMES = ["a", "b", "a/b", "~", "~1", "", "id", "node"]
VALUES: list[Any] = [None, True, False, 0, 1, 1.5, "", "x", "y"]


def applied(value: Any, patch: list[dict[str, Any]]) -> Any:
    """Applies a patch as RFC 6902 says."""
    root = {"": copy.deepcopy(value)}
    for operation in patch:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in ("/" + operation["path"]).split("/")[1:]]
        target: Any = root
        for part in parts[:-1]:
            target = target[int(part) if isinstance(target, list) else part]
        last: Any = int(parts[-1]) if isinstance(target, list) else parts[-1]
        if operation["op"] == "remove":
            del target[last]
        elif operation["op"] == "add" and isinstance(target, list):
            target.insert(last, operation["value"])
        else:
            assert operation["op"] == "add" or last in target or isinstance(target, list)
            target[last] = operation["value"]
    return root[""]


def some_json(rng: random.Random, depth: int = 3) -> Any:
    kind = rng.random()
    if depth and kind < 0.35:
        return {name: some_json(rng, depth - 1) for name in NAMES if rng.random() < 0.6}
    if depth and kind < 0.7:
        return [some_json(rng, depth - 1) for _ in range(rng.randrange(5))]
    return rng.choice(VALUES)


def changed(rng: random.Random, value: Any) -> Any:
    """Returns the value with some changes within."""
    if isinstance(value, dict) and value:
        name = rng.choice(list(value))
        return {**value, name: changed(rng, value[name])}
    if isinstance(value, list) and value:
        if rng.random() < 0.3:
            return [changed(rng, one) if rng.random() < 0.2 else one for one in rng.sample(value, len(value))]
        place = rng.randrange(len(value))
        others = [[], [some_json(rng, 1), value[place]], [changed(rng, value[place])]]
        return [*value[:place], *rng.choice(others), *value[place + 1 :]]
    return some_json(rng, 1)


def test_a_patch_makes_the_new_value_of_the_old_one() -> None:
    rng = random.Random(4)
    for number in range(3_000):
        old = some_json(rng)
        new = changed(rng, old) if number % 3 else some_json(rng)
        patch = json.loads(json.dumps(list(patch_between(old, new))))
        # As text, because in Python 1 equals true.
        assert json.dumps(applied(old, patch), sort_keys=True) == json.dumps(new, sort_keys=True), (old, new, patch)


def test_a_row_that_comes_or_goes_is_one_operation() -> None:
    rows = [{"id": number} for number in range(5)]

    assert list(patch_between(rows, [{"id": 9}, *rows])) == [{"op": "add", "path": "/0", "value": {"id": 9}}]
    assert list(patch_between(rows, rows[:2] + rows[3:])) == [{"op": "remove", "path": "/2"}]


def test_a_page_that_moves_on_by_a_row_is_two_operations() -> None:
    rows = [{"id": str(number), "votes": number} for number in range(5)]
    come = {"id": "9", "votes": 0}
    moved = [{"op": "add", "path": "/0", "value": come}, {"op": "remove", "path": "/5"}]

    assert list(patch_between(rows, [come, *rows[:4]])) == moved
    assert list(patch_between([come, *rows[:4]], rows)) == [
        {"op": "remove", "path": "/0"},
        {"op": "add", "path": "/4", "value": rows[4]},
    ]


def test_a_row_that_moves_and_changes_is_found_by_its_id() -> None:
    rows = [{"cursor": f"c{number}", "node": {"id": str(number), "votes": 0}} for number in range(5)]
    come = {"cursor": "c9", "node": {"id": "9", "votes": 0}}
    voted = {"cursor": "c1", "node": {"id": "1", "votes": 1}}

    assert list(patch_between(rows, [come, rows[0], voted, *rows[2:4]])) == [
        {"op": "add", "path": "/0", "value": come},
        {"op": "replace", "path": "/2/node/votes", "value": 1},
        {"op": "remove", "path": "/5"},
    ]


async def test_a_client_that_asks_for_patches_gets_what_has_changed(gateway: GatewayClient, socket: Socket) -> None:
    products = [await create_product(gateway, title=f"Title {number}") for number in range(5)]
    await socket.init()
    await socket.send(subscribe("1", TITLES, extensions={"jsonPatch": True}))
    first = (await socket.receive())["payload"]
    assert first["revision"] == 1
    await rename_product(gateway, products[3], "Title 3b")

    second = (await socket.receive())["payload"]

    assert second == {
        "patch": [{"op": "replace", "path": "/products/nodes/3/title", "value": "Title 3b"}],
        "revision": 2,
    }
    assert applied(first["data"], second["patch"]) == await gateway.data(TITLES)
    await gateway.result("deleteProduct", {"id": products[0]["id"], "nonce": products[0]["nonce"]})
    third = (await socket.receive())["payload"]
    assert third == {"patch": [{"op": "remove", "path": "/products/nodes/0"}], "revision": 3}


async def test_an_answer_that_is_shorter_than_its_patch_comes_whole(gateway: GatewayClient, socket: Socket) -> None:
    category = await create_category(gateway, name="a")
    query = "query ($slug: String!) @live { category(slug: $slug) { name } }"
    await socket.init()
    await socket.send(subscribe("1", query, variables={"slug": category["slug"]}, extensions={"jsonPatch": True}))
    assert (await socket.receive())["payload"] == {"data": {"category": {"name": "a"}}, "revision": 1}
    await gateway.result("renameCategory", {"id": category["id"], "name": "b"})

    assert (await socket.receive())["payload"] == {"data": {"category": {"name": "b"}}, "revision": 1}


async def test_a_query_that_is_not_live_is_answered_whole(socket: Socket) -> None:
    await socket.init()
    await socket.send(subscribe("1", "{ viewer { subject } }", extensions={"jsonPatch": True}))

    assert (await socket.receive())["payload"] == {"data": {"viewer": None}}
