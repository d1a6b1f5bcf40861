"""Members and the social graph: as clients see them, and both documents of a pair, which the check repairs."""

from __future__ import annotations

from typing import Any

import pytest

from portico.gateway.domains.social import graph
from portico.resolvers.documents import Database
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.problems import Problem
from portico.resolvers.social import circles, relations
from tests.social.support.members import ADD, BLOCK, JOIN, REMOVE, UPDATE, USER, call, read
from tests.social.support.social import block, circle, join, operation, unblock, uncircle, user_id
from tests.support.documents import stored
from tests.support.harness import GatewayClient
from tests.support.interruptions import interrupted
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


@pytest.mark.sample(2)
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


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["a.b", "$x", "_id", "$$ROOT", "👩‍👩‍👧", "c" * 64, "ü" * 64, "__proto__", "0"])
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


async def test_each_of_two_members_knows_what_both_have_decided(db: Database) -> None:
    await prepare(db)

    ada = (await relations.find(db, "ada", ["bo", "cy"]))["bo"]
    bo = (await relations.find(db, "bo", ["ada"], None))["ada"]
    assert (ada["circles"], ada["blocked"], relations.has_block(ada)) == (["a.b", "$x"], True, True)
    assert (bo["in_circles"], bo["blocks"], relations.follows(bo)) == (["a.b", "$x"], True, False)
    assert "uncopied" not in bo
    assert bo["follower"] is not None


async def test_leaving_the_last_circle_ends_following(db: Database) -> None:
    await join(db, "ada", "bo")
    await circle(db, "ada", "bo", name="a.b")
    await circle(db, "ada", "bo", name="$x")

    await uncircle(db, "ada", "bo", name="a.b")
    half = await relations.find_one(db, "bo", "ada")
    await uncircle(db, "ada", "bo", name="$x")

    ada = await relations.find_one(db, "ada", "bo")
    bo = await relations.find_one(db, "bo", "ada")
    assert half is not None
    assert (half["in_circles"], "follower" in half) == (["$x"], True)
    assert ada is not None
    assert bo is not None
    assert (ada["circles"], "since" in ada, bo["in_circles"], "follower" in bo) == ([], False, [], False)
    assert await circles.existing(db, "ada", ["a.b", "$x"]) == []


async def test_blocks_can_be_taken_back_even_if_they_are_mutual(db: Database) -> None:
    await join(db, "ada", "bo")
    await block(db, "ada", "bo")
    with pytest.raises(NotFound):
        await block(db, "bo", "ada")

    with pytest.raises(NotFound):
        await unblock(db, "ada", "bo")
    await unblock(db, "bo", "ada")

    found = (await relations.find(db, "ada", ["bo"]))["bo"]
    assert not relations.has_block(found)


async def test_nobody_can_circle_themselves_a_stranger_or_a_member_who_blocked_them(db: Database) -> None:
    await join(db, "ada", "bo")
    await block(db, "bo", "ada")

    with pytest.raises(InvalidInput):
        await circle(db, "ada", "ada")
    with pytest.raises(NotFound):
        await circle(db, "ada", "nobody")
    with pytest.raises(NotFound, match="join"):
        await circle(db, "nobody", "ada")
    with pytest.raises(NotFound):
        await circle(db, "ada", "bo")
    assert not (await relations.find(db, "ada", ["bo"]))["bo"].get("circles")


OWN = {"of": "ada", "to": "bo"}
OTHER = {"of": "bo", "to": "ada"}


async def problems(db: Database) -> list[Problem]:
    return [problem for invariant in graph.INVARIANTS async for problem in invariant.problems(db)]


async def prepare(db: Database) -> None:
    """Ada follows Bo in two circles, and Bo has blocked Ada."""
    await join(db, "ada", "bo")
    await circle(db, "ada", "bo", name="a.b")
    await circle(db, "ada", "bo", name="$x")
    await block(db, "bo", "ada")


async def test_a_graph_after_many_changes_is_right(db: Database) -> None:
    await join(db, "cy")
    await prepare(db)
    await circle(db, "ada", "cy", name="a.b")
    await uncircle(db, "ada", "cy", name="a.b")
    await block(db, "cy", "bo")

    assert await problems(db) == []


@pytest.mark.parametrize(
    ("key", "change", "text"),
    [
        (OTHER, {"$set": {"in_circles": ["a.b"]}}, "the other document has other circles, or another block"),
        (OTHER, {"$unset": {"follower": ""}}, "the other document has other circles, or another block"),
        (OWN, {"$set": {"blocked": False}}, "the other document has other circles, or another block"),
        (OTHER, {"$set": {"copied": 1}}, "the other document lacks the latest change"),
        (OTHER, None, "the other document lacks the latest change"),
    ],
)
async def test_a_wrong_copy_is_repaired_from_the_decision(
    db: Database, key: dict[str, str], change: dict[str, Any] | None, text: str
) -> None:
    await prepare(db)
    if change is None:
        await db["social.relations"].update_one(
            {"_id": key}, {"$unset": {"copied": "", "in_circles": "", "follower": ""}}
        )
    else:
        await db["social.relations"].update_one({"_id": key}, change)

    (found,) = await problems(db)

    assert found.text == text
    assert await found.mend()
    assert await problems(db) == []
    (other,) = await db["social.relations"].find({"_id": OTHER}).to_list()
    assert (other["in_circles"], "follower" in other, other["blocks"]) == (["a.b", "$x"], True, True)


async def test_a_circle_that_its_member_does_not_list_is_listed_again(db: Database) -> None:
    await prepare(db)
    await db["social.members"].update_one({"_id": "ada"}, {"$set": {"circles": ["a.b"]}})

    (found,) = await problems(db)

    assert (found.subject, found.text) == ("relation of ada to bo", "the list of circles lacks $x")
    assert await found.mend()
    assert await problems(db) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"$set": {"circles": ["a.b", "a.b", "$x"]}}, "a circle is named twice"),
        ({"$unset": {"since": ""}}, "since"),
        ({"$set": {"copied": 9}}, "it has a copy of a change that the other document does not have"),
        ({"$set": {"version": "text"}}, "TypeError"),
    ],
)
async def test_a_contradiction_is_reported(db: Database, change: dict[str, Any], text: str) -> None:
    await prepare(db)
    await db["social.relations"].update_one({"_id": OWN}, change)

    assert any(text in problem.text for problem in await problems(db))


async def test_a_relation_with_somebody_who_is_no_member_is_reported(db: Database) -> None:
    await prepare(db)
    await db["social.members"].delete_one({"_id": "bo"})

    assert {problem.text for problem in await problems(db)} == {"bo is no member"}


async def test_a_change_during_the_check_is_no_problem(db: Database) -> None:
    await prepare(db)

    async def change() -> None:
        await circle(db, "bo", "ada")

    for skip in range(4):
        assert await problems(interrupted(db, None, None, change, skip=skip)) == []
        await db["social.relations"].delete_many({})
        await db["social.members"].delete_many({})
        await prepare(db)


async def test_a_change_that_is_not_finished_is_left_to_its_job(db: Database) -> None:
    await prepare(db)
    await db["social.relations"].update_one({"_id": OTHER}, {"$set": {"copied": 0}})
    unfinished = {"uncopied": {"op": "r-1", "at": operation()["now"]}}
    await db["social.relations"].update_one({"_id": OWN}, {"$set": unfinished})

    assert await problems(db) == []


async def test_a_relation_under_the_id_of_another_one_is_reported(db: Database) -> None:
    await prepare(db)
    stray = {**await stored(db, "social.relations", {"_id": OWN}), "_id": "stray", "of": "zz"}
    await db["social.relations"].insert_one(stray)

    assert [(one.text, one.repair) for one in await problems(db)] == [("its `_id` is not that of its members", None)]
