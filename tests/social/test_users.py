"""Members and the social graph as clients see them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.social.support.members import ADD, BLOCK, JOIN, REMOVE, UPDATE, USER, call, read
from tests.social.support.social import block, circle, join, user_id
from tests.support.harness import GatewayClient
from tests.support.paging import pages

CIRCLES = "{ viewer { user { circles { name members { nodes { name } } } blocked { name } } } }"


async def test_a_caller_joins_once_with_a_name_and_a_profile(gateway: GatewayClient) -> None:
    profile = {
        "about": "Mathematics\n\nand engines",
        "location": " London ",
        "website": "https://example.org/~ada?x=1#me",
        "birthYear": 1915,
        "interests": ["poetry", "engines", "poetry"],
    }
    assert await read(gateway, "{ viewer { user { name } } }", "ada") == {"viewer": {"user": None}}

    joined = await call(gateway, JOIN, "ada", name=" Ada ", profile=profile)

    shown = {**profile, "location": "London", "interests": ["poetry", "engines"]}
    assert joined["user"] == {"id": user_id("ada"), "name": "Ada", "profile": shown}
    assert await read(gateway, f"{{ viewer {{ {USER} }} }}", "ada") == {"viewer": {"user": joined["user"]}}
    found = await read(
        gateway, f"query ($id: ID!) {{ {USER.replace('user', 'user(id: $id)')} }}", None, id=user_id("ada")
    )
    assert found == {"user": joined["user"]}
    again = await call(gateway, JOIN, "ada", name="Another")
    assert (again["__typename"], again["message"]) == ("Conflict", "You are a member already.")


async def test_a_repeated_call_joins_once_and_gets_the_same_answer(gateway: GatewayClient) -> None:
    first = await call(gateway, JOIN, "ada", name="Ada", idempotencyKey="one")

    assert await call(gateway, JOIN, "ada", name="Ada", idempotencyKey="one") == first
    assert (await call(gateway, JOIN, "ada", name="Ada", idempotencyKey="two"))["__typename"] == "Conflict"
    assert await gateway.db["social.members"].count_documents({}) == 1


async def test_a_member_changes_only_the_values_that_are_given(gateway: GatewayClient) -> None:
    await call(gateway, JOIN, name="Ada", profile={"about": "A", "location": "B", "birthYear": 1915})

    changed = await call(gateway, UPDATE, profile={"about": None, "location": "C", "interests": []})
    renamed = await call(gateway, UPDATE, name="Ada L.")

    left: dict[str, Any] = {"about": None, "location": "C", "website": None, "birthYear": 1915, "interests": []}
    assert (changed["user"]["name"], changed["user"]["profile"]) == ("Ada", left)
    assert (renamed["user"]["name"], renamed["user"]["profile"]) == ("Ada L.", left)
    assert await call(gateway, UPDATE) == renamed


async def test_a_new_name_is_marked_for_the_copies_in_posts(gateway: GatewayClient) -> None:
    await call(gateway, JOIN, name="Ada")

    await call(gateway, UPDATE, name="Ada", profile={"about": "A"})
    assert await gateway.db["social.members"].count_documents({"renamed": {"$exists": True}}) == 0
    await call(gateway, UPDATE, name="Ada L.")
    assert await gateway.db["social.members"].count_documents({"renamed.at": {"$type": "date"}}) == 1


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"name": ""}, ["name"]),
        ({"name": " \u200b "}, ["name"]),
        ({"name": "n" * 81}, ["name"]),
        ({"name": "a\x00b"}, ["name"]),
        ({"name": "a\u202eb"}, ["name"]),
        ({"profile": {"about": "a" * 10_001}}, ["profile", "about"]),
        ({"profile": {"location": "a" * 201}}, ["profile", "location"]),
        ({"profile": {"website": "javascript:alert(1)"}}, ["profile", "website"]),
        ({"profile": {"website": " JavaScript://example.org/%0aalert(1)"}}, ["profile", "website"]),
        ({"profile": {"website": "java\tscript:alert(1)"}}, ["profile", "website"]),
        ({"profile": {"website": "data:text/html,x"}}, ["profile", "website"]),
        ({"profile": {"website": "//example.org"}}, ["profile", "website"]),
        ({"profile": {"website": "https://"}}, ["profile", "website"]),
        ({"profile": {"website": "https://example.org/a b"}}, ["profile", "website"]),
        ({"profile": {"website": "https://example.org:port/"}}, ["profile", "website"]),
        ({"profile": {"website": "https://[::1"}}, ["profile", "website"]),
        ({"profile": {"website": "https://example.org/" + "a" * 2_000}}, ["profile", "website"]),
        ({"profile": {"birthYear": 1899}}, ["profile", "birthYear"]),
        ({"profile": {"birthYear": 3000}}, ["profile", "birthYear"]),
        ({"profile": {"interests": ["a"] * 51}}, ["profile", "interests"]),
        ({"profile": {"interests": ["a", "a" * 101]}}, ["profile", "interests", "1"]),
        ({"profile": {"interests": ["a", " "]}}, ["profile", "interests", "1"]),
    ],
)
async def test_names_and_profiles_have_limits(gateway: GatewayClient, given: dict[str, Any], path: list[str]) -> None:
    refused = await call(gateway, JOIN, "ada", **{"name": "Ada", **given})
    await join(gateway.db, "bo")
    unchanged = await call(gateway, UPDATE, "bo", **given)

    assert [(one["__typename"], one["path"]) for one in (refused, unchanged)] == [("InvalidInput", path)] * 2
    assert [one["_id"] async for one in gateway.db["social.members"].find({})] == ["bo"]


async def test_what_a_member_changes_needs_a_token_and_a_member(gateway: GatewayClient) -> None:
    await join(gateway.db, "bo")
    texts = {ADD: {"userId": user_id("bo"), "circle": "c"}, BLOCK: {"userId": user_id("bo")}, UPDATE: {"name": "N"}}
    for text, given in texts.items():
        anonymous = await gateway.ask(text, {"input": given}, token=None)
        stranger = await call(gateway, text, "stranger", **given)

        assert anonymous.codes == ["UNAUTHENTICATED"]
        assert stranger == {"__typename": "NotFound", "message": "You are not a member yet. Call `join` first."}


@pytest.mark.parametrize("name", ["a.b", "$x", "_id", "$$ROOT", "👩‍👩‍👧", "c" * 64, "a\nb", "ü" * 64, "__proto__", "0"])
async def test_a_circle_can_have_any_name(gateway: GatewayClient, name: str) -> None:
    await join(gateway.db, "ada", "bo", "cy")

    added = await call(gateway, ADD, "ada", userId=user_id("bo"), circle=name)
    again = await call(gateway, ADD, "ada", userId=user_id("bo"), circle=name)
    await call(gateway, ADD, "ada", userId=user_id("cy"), circle=f" {name} ")
    shown = await read(gateway, CIRCLES, "ada")
    removed = await call(gateway, REMOVE, "ada", userId=user_id("bo"), circle=name)

    assert added == again == removed
    assert (added["__typename"], added["user"]["name"]) == ("UserPayload", "Bo")
    members = {"nodes": [{"name": "Bo"}, {"name": "Cy"}]}
    assert shown["viewer"]["user"]["circles"] == [{"name": name, "members": members}]
    left = await read(gateway, CIRCLES, "ada")
    assert left["viewer"]["user"]["circles"] == [{"name": name, "members": {"nodes": [{"name": "Cy"}]}}]


@pytest.mark.parametrize("name", ["", "  ", "c" * 65, "a\x00b", "\u200d"])
async def test_a_circle_needs_a_name_that_can_be_shown(gateway: GatewayClient, name: str) -> None:
    await join(gateway.db, "ada", "bo")

    refused = await call(gateway, ADD, "ada", userId=user_id("bo"), circle=name)

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["circle"])
    assert await gateway.db["social.relations"].count_documents({}) == 0


async def test_a_circle_exists_while_it_has_a_member(gateway: GatewayClient) -> None:
    await join(gateway.db, "ada", "bo")
    await call(gateway, ADD, "ada", userId=user_id("bo"), circle="one")
    await call(gateway, ADD, "ada", userId=user_id("bo"), circle="two")

    await call(gateway, REMOVE, "ada", userId=user_id("bo"), circle="one")

    assert (await read(gateway, CIRCLES, "ada"))["viewer"]["user"]["circles"] == [
        {"name": "two", "members": {"nodes": [{"name": "Bo"}]}}
    ]


async def test_a_member_has_at_most_200_circles_and_emptied_ones_make_room(gateway: GatewayClient) -> None:
    await join(gateway.db, "ada", "bo")
    for number in range(200):
        await circle(gateway.db, "ada", "bo", name=f"c{number}")
    beyond = {"userId": user_id("bo"), "circle": "beyond"}

    refused = await call(gateway, ADD, "ada", **beyond)
    known = await call(gateway, ADD, "ada", userId=user_id("bo"), circle="c7")
    await call(gateway, REMOVE, "ada", userId=user_id("bo"), circle="c7")
    added = await call(gateway, ADD, "ada", **beyond)

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["circle"])
    assert [known["__typename"], added["__typename"]] == ["UserPayload"] * 2
    names = [one["name"] for one in (await read(gateway, CIRCLES, "ada"))["viewer"]["user"]["circles"]]
    assert len(names) == 200
    assert "beyond" in names
    assert "c7" not in names


async def test_circles_and_blocks_are_seen_by_their_owner_alone(gateway: GatewayClient) -> None:
    await join(gateway.db, "ada", "bo", "cy")
    await circle(gateway.db, "ada", "bo", name="private")
    await block(gateway.db, "ada", "cy")
    text = "query ($id: ID!) { user(id: $id) { name circles { name } blocked { name } followers { nodes { name } } } }"

    own = await read(gateway, text, "ada", id=user_id("ada"))
    others = [await read(gateway, text, subject, id=user_id("ada")) for subject in ("bo", "stranger", None)]

    assert own["user"]["circles"] == [{"name": "private"}]
    assert own["user"]["blocked"] == [{"name": "Cy"}]
    assert others == [{"user": {"name": "Ada", "circles": None, "blocked": None, "followers": {"nodes": []}}}] * 3
    assert (await read(gateway, text, None, id=user_id("bo")))["user"]["followers"] == {"nodes": [{"name": "Ada"}]}


async def test_the_followers_of_a_member_are_paged(gateway: GatewayClient) -> None:
    names = [f"m{number:02}" for number in range(25)]
    await join(gateway.db, "ada", *names, follows=dict.fromkeys(names, ("ada",)))
    text = """query ($id: ID!, $after: String) { user(id: $id) { followers(first: 10, after: $after) {
        edges { cursor node { name } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } } }"""

    async def page(after: str | None) -> Any:
        return (await read(gateway, text, id=user_id("ada"), after=after))["user"]["followers"]

    found = [one async for one in pages(page)]
    assert [edge["node"]["name"] for one in found for edge in one["edges"]] == [name.capitalize() for name in names]
    infos = [(one["pageInfo"]["hasPreviousPage"], one["pageInfo"]["hasNextPage"]) for one in found]
    assert infos == [(False, True), (True, True), (True, False)]
    other = await gateway.ask(text, {"id": user_id("m00"), "after": found[-1]["pageInfo"]["endCursor"]})
    assert other.codes == ["BAD_USER_INPUT"]
