"""Finding members by name, the directory of all members, and the timeline of all public posts."""

from __future__ import annotations

from typing import Any

import pytest

from portico.resolvers.social import member_edits, member_search
from portico.resolvers.social.members import MEMBERS, upgrade_member
from tests.social.support.post_reads import as_member
from tests.social.support.posts import NOW, add_members, later, write_post
from tests.social.support.social import block, join, operation
from tests.support.explaining import explain
from tests.support.harness import GatewayClient
from tests.support.plans import documents_examined, plans_of

FIND = "query ($text: String!, $first: Int! = 10) { usersByName(text: $text, first: $first) { name } }"
SUGGEST = "query ($text: String!) { suggest(text: $text) { kind title } }"
USERS = """
query ($first: Int, $after: String, $last: Int, $before: String) {
  users(first: $first, after: $after, last: $last, before: $before) {
    nodes { name } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  }
}
"""
POSTS = """
query ($first: Int, $after: String, $month: String) {
  publicPosts(first: $first, after: $after, month: $month) {
    nodes { text by { name } } pageInfo { hasNextPage endCursor }
  }
}
"""


async def _named(gateway: GatewayClient, *names: str) -> None:
    for number, name in enumerate(names):
        await member_edits.join(gateway.db, subject=f"m{number}", name=name, profile={}, **operation())


async def _found(gateway: GatewayClient, text: str, viewer: str | None = None, **given: Any) -> list[str]:
    data = await gateway.data(FIND, {"text": text, **given}, **as_member(gateway, viewer))
    return [member["name"] for member in data["usersByName"]]


async def _suggested(gateway: GatewayClient, text: str, viewer: str | None = None) -> list[str]:
    data = await gateway.data(SUGGEST, {"text": text}, **as_member(gateway, viewer))
    return [one["title"] for one in data["suggest"] if one["kind"] == "User"]


async def _directory(gateway: GatewayClient, viewer: str | None, **given: Any) -> tuple[list[str], Any]:
    data = await gateway.data(USERS, given, **as_member(gateway, viewer))
    return [member["name"] for member in data["users"]["nodes"]], data["users"]["pageInfo"]


async def _timeline(gateway: GatewayClient, viewer: str | None, **given: Any) -> tuple[list[str], Any]:
    data = await gateway.data(POSTS, given, **as_member(gateway, viewer))
    return [post["text"] for post in data["publicPosts"]["nodes"]], data["publicPosts"]["pageInfo"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mil", ["Miles Davis", "Eve Miller"]),
        ("MILES", ["Miles Davis"]),
        ("dav mil", ["Miles Davis"]),
        ("davi", ["Miles Davis", "Zoë Davies"]),
        ("zoe", ["Zoë Davies"]),
        ("ZOË", ["Zoë Davies"]),
        ("d", ["Miles Davis", "Zoë Davies", "O'Day"]),
        ("iles", []),
        ("dav zz", []),
        ("  ", []),
        ("?", []),
        ("straße", ["Ann Strasse"]),
    ],
)
async def test_members_are_found_by_beginnings_of_words(gateway: GatewayClient, text: str, expected: list[str]) -> None:
    await _named(gateway, "Miles Davis", "Zoë Davies", "Eve Miller", "Ann Strasse", "Bo d'Or", "Day O'Day")
    expected = [{"O'Day": "Day O'Day"}.get(name, name) for name in expected]

    found = await _found(gateway, text)

    # `d'or` is one word that begins with d.
    assert sorted(found) == sorted([*expected, *(["Bo d'Or"] if text == "d" else [])])


async def test_a_new_name_is_found_at_once_and_the_old_one_no_longer(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann")
    await member_edits.update_profile(gateway.db, subject="ann", name="Émile Zola", profile={}, **operation())

    assert (await _found(gateway, "emile"), await _found(gateway, "ann")) == (["Émile Zola"], [])
    assert (await _directory(gateway, None))[0] == ["Émile Zola"]


async def test_members_of_an_older_version_get_the_keys_of_their_names(gateway: GatewayClient) -> None:
    await gateway.db["social.members"].insert_one(
        {"_id": "old", "name": "Ömer K.", "profile": {}, "circles": [], "joined": NOW}
    )
    assert upgrade_member({"name": "Ömer K."})["name_keys"] == ["omer k", "k omer"]

    await gateway.data('{ user(id: "VXNlcjpvbGQ") { name } }', token=None)

    assert await _found(gateway, "ome") == ["Ömer K."]
    assert await _suggested(gateway, "omre") == ["Ömer K."]
    assert (await gateway.db["social.members"].find_one({}) or {})["schema_version"] == MEMBERS.version


@pytest.mark.parametrize("text", ["jonas livndahl", "jnoas lindahl", "lindhal", "Lindähll", "jonas l", "jonax lindahl"])
async def test_members_are_suggested_for_words_with_one_typo(gateway: GatewayClient, text: str) -> None:
    await _named(gateway, "Jonas Lindahl", "Jonathan Lind", "Ida O'Brien")

    assert await _suggested(gateway, text) == ["Jonas Lindahl"]
    assert await _suggested(gateway, "obrein") == ["Ida O'Brien"]
    assert await _suggested(gateway, "obrie xyz") == await _suggested(gateway, "idx") == []


async def test_a_new_name_is_suggested_by_its_typos_and_the_former_one_is_not(gateway: GatewayClient) -> None:
    await _named(gateway, "Jonas Lindahl")
    await member_edits.update_profile(gateway.db, subject="m0", name="Mirjam", profile={}, **operation())

    assert (await _suggested(gateway, "lindhal"), await _suggested(gateway, "mirajm")) == ([], ["Mirjam"])


async def test_a_typo_does_not_find_a_member_who_has_blocked_the_viewer(gateway: GatewayClient) -> None:
    await join(gateway.db, "reader", "mirjam", "mirjan")
    await block(gateway.db, "mirjam", "reader")

    assert await _suggested(gateway, "mirjam", "reader") == ["Mirjan"]
    assert await _suggested(gateway, "mirajm", "reader") == []
    assert await _suggested(gateway, "mirajm") == ["Mirjam"]


async def test_a_search_for_a_typo_is_bounded_and_indexed(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_search, "MAX_CONSIDERED", 10)
    await _named(gateway, *(f"Jonas {number}" for number in range(30)))
    gateway.commands.clear()

    found = await member_search.find_typed(gateway.db, "jnoas", limit=5)

    assert (found.exact, len(found.near)) == ([], 5)
    assert len(gateway.commands.sent) == 1
    assert documents_examined(await plans_of(gateway)) <= 10


async def test_a_member_who_has_blocked_the_viewer_is_not_found(gateway: GatewayClient) -> None:
    names = [f"mia{number}" for number in range(5)]
    await join(gateway.db, "reader", *names)
    for name in names[:3]:
        await block(gateway.db, name, "reader")

    assert await _found(gateway, "mia", "reader", first=2) == ["Mia3", "Mia4"]
    assert await _found(gateway, "mia", None, first=2) == ["Mia0", "Mia1"]
    suggested = '{ suggest(text: "mia", first: 2) { kind title match { text isMatch } node { ... on User { name } } } }'
    found = (await gateway.data(suggested, **as_member(gateway, "reader")))["suggest"]
    assert [one["node"]["name"] for one in found] == [one["title"] for one in found] == ["Mia3", "Mia4"]
    assert found[0]["match"] == [{"text": "Mia", "isMatch": True}, {"text": "3", "isMatch": False}]
    shown, info = await _directory(gateway, "reader", first=1)
    assert (shown, info["hasNextPage"], info["hasPreviousPage"]) == (["Mia3"], True, False)
    shown, info = await _directory(gateway, "reader", first=1, after=info["endCursor"])
    assert (shown, info["hasPreviousPage"]) == (["Mia4"], True)


async def test_the_directory_is_in_the_order_of_names_both_ways(gateway: GatewayClient) -> None:
    await _named(gateway, "bob", "Émile", "Ann", "Zoe", "ann", "Eve")
    ordered = ["Ann", "ann", "bob", "Émile", "Eve", "Zoe"]

    assert (await _directory(gateway, None))[0] == ordered
    shown, info = await _directory(gateway, None, last=2)
    assert shown == ordered[4:]
    assert (await _directory(gateway, None, last=3, before=info["startCursor"]))[0] == ordered[1:4]


async def test_a_search_examines_a_bounded_number_of_members(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_search, "MAX_CONSIDERED", 50)
    await add_members(gateway.db, *(f"mia {number:03}" for number in range(300)), "mia zz")
    for text, most in (("mi", 12), ("mia 00", 52), ("zz mia", 52)):
        gateway.commands.clear()
        await _found(gateway, text, first=10)
        searches = [one for one in gateway.commands.sent if one.get("aggregate") == "social.members"]
        plans = [plan for one in searches for plan in await explain(gateway.db, one)]
        assert not any(plan.scans_collection or plan.sorts_in_memory for plan in plans)
        assert max(plan.documents_examined for plan in plans) <= most, text


async def test_pages_of_the_directory_and_the_timeline_walk_along_an_index(gateway: GatewayClient) -> None:
    await add_members(gateway.db, *(f"m{number:03}" for number in range(100)))
    for number in range(60):
        await write_post(gateway.db, "m001", f"Post {number}", now=later(number))
    gateway.commands.clear()
    _, users = await _directory(gateway, "m000", first=5)
    _, posts = await _timeline(gateway, "m000", first=5)
    await _directory(gateway, "m000", first=5, after=users["endCursor"])
    await _timeline(gateway, "m000", first=5, after=posts["endCursor"])

    plans = await plans_of(gateway)
    assert not any(plan.sorts_in_memory for plan in plans)
    assert max(plan.documents_examined for plan in plans) <= 8


async def test_the_timeline_has_the_public_posts_that_the_viewer_sees(gateway: GatewayClient) -> None:
    db = gateway.db
    await join(db, "ann", "bob", "cem", "dan", follows={"ann": ["bob"]})
    await write_post(db, "ann", "1 public", now=later(1))
    await write_post(db, "ann", "2 for circles", audience="CIRCLES", now=later(2))
    await write_post(db, "bob", "3 public", now=later(3))
    await write_post(db, "cem", "4 to dan", to="dan", now=later(4))
    await block(db, "dan", "bob")
    await block(db, "ann", "cem")

    everybody = ["4 to dan", "3 public", "1 public"]
    assert (await _timeline(gateway, None))[0] == everybody
    assert (await _timeline(gateway, "ann"))[0] == ["3 public", "1 public"]
    assert (await _timeline(gateway, "bob"))[0] == ["3 public", "1 public"]
    assert (await _timeline(gateway, "cem"))[0] == ["4 to dan", "3 public"]
    assert (await _timeline(gateway, "stranger"))[0] == everybody
    assert (await _timeline(gateway, None, month="201001"))[0] == []
    shown, info = await _timeline(gateway, "stranger", first=2)
    assert (shown, info["hasNextPage"]) == (everybody[:2], True)
    assert (await _timeline(gateway, "stranger", first=2, after=info["endCursor"]))[0] == everybody[2:]


@pytest.mark.parametrize("given", [{"text": "a" * 201}, {"text": "a", "first": 0}, {"text": "a", "first": 101}])
async def test_a_search_has_bounds(gateway: GatewayClient, given: dict[str, Any]) -> None:
    answer = await gateway.ask(FIND, given, token=None)
    assert answer.codes == ["BAD_USER_INPUT"]
