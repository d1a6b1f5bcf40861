"""Imports of members with their circles, and of posts, which reach the news feeds of those who follow the authors."""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from portico.gateway.domains.social import people
from portico.gateway.mongo.faults import Crash
from portico.resolvers.documents import Database
from portico.resolvers.social import members, relation_jobs, relations
from portico.schema.kinds import Kind
from tests.social.support.posts import deliver, later, write_post
from tests.social.support.social import assert_graph_is_right, block, circle, join, user_id
from tests.support import real_data
from tests.support.crashing_databases import CrashingDatabases
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, some_stops
from tests.support.real_data import rows
from tests.support.record_imports import import_records

ADA = {
    "subject": "ada",
    "name": "Ada",
    "profile": {"about": "A", "website": "https://example.org", "birthYear": 1915, "interests": ["poetry"]},
}
BO = {"subject": "bo", "name": "Bo"}
CIRCLE = {"of": "ada", "circle": "a.b", "members": ["bo"]}


async def run(db: Any, tmp_path: Path, *records: Any, prefix: str = "") -> tuple[Counter[str], dict[int, str]]:
    """Imports members and circles. Returns how many records had each outcome, and why lines were refused."""
    return await import_records(db, people.people(prefix), tmp_path, records)


async def test_members_and_circles_are_imported_once(db: Database, tmp_path: Path) -> None:
    first, bad = await run(db, tmp_path, ADA, BO, CIRCLE)
    second, _ = await run(db, tmp_path, ADA, BO, CIRCLE)

    assert (first, second, bad) == ({"created": 3}, {"unchanged": 3}, {})
    ada = (await members.find_by_ids(db, ["ada"]))["ada"]
    assert (ada["name"], ada["circles"]) == ("Ada", ["a.b"])
    assert ada["profile"] == {
        "about": "A",
        "website": "https://example.org",
        "birth_year": 1915,
        "interests": ["poetry"],
    }
    bo = (await relations.find(db, "bo", ["ada"]))["ada"]
    assert bo["in_circles"] == ["a.b"]
    await assert_graph_is_right(db)


async def test_a_repeated_import_updates_members_and_keeps_what_is_in_their_circles(
    db: Database, tmp_path: Path
) -> None:
    await run(db, tmp_path, ADA, BO, {"subject": "cy", "name": "Cy"}, CIRCLE)
    await circle(db, "ada", "cy", name="a.b")
    await block(db, "bo", "ada")

    counts, _ = await run(db, tmp_path, {"subject": "ada", "name": "Ada L."}, {**CIRCLE, "circle": "$x"})

    assert counts == {"changed": 1, "created": 1}
    ada = (await members.find_by_ids(db, ["ada"]))["ada"]
    assert (ada["name"], ada["profile"], "renamed" in ada) == ("Ada L.", {}, True)
    known = await relations.find(db, "ada", ["bo", "cy"])
    assert {to: one["circles"] for to, one in known.items()} == {"bo": ["a.b", "$x"], "cy": ["a.b"]}
    assert known["bo"]["blocked"] is True
    await assert_graph_is_right(db)


async def test_an_ego_network_becomes_members_who_follow_each_other(db: Database, tmp_path: Path) -> None:
    records: list[Any] = [
        {"id": 0, "is_ego": True, "networks": [], "degree": 2, "profile": {"gender": [78], "education;type": [53, 54]}},
        *({"id": number, "is_ego": False, "networks": [0], "degree": 1, "profile": {}} for number in (1, 2)),
        {"ego": 0, "circle": "circle0", "size": 2, "members": [1, 2]},
        {"a": 0, "b": 1},
        {"a": 1, "b": 2},
    ]

    counts, bad = await run(db, tmp_path, *records, prefix="snap-")

    assert (counts, bad) == ({"created": 6}, {})
    ego = (await members.find_by_ids(db, ["snap-0"]))["snap-0"]
    assert (ego["name"], ego["profile"]["interests"]) == (
        "Person 0",
        ["gender 78", "education type 53", "education type 54"],
    )
    known = await relations.find(db, "snap-1", ["snap-0", "snap-2"])
    assert {to: (one["circles"], one["in_circles"]) for to, one in known.items()} == {
        "snap-0": (["friends"], ["circle0", "friends"]),
        "snap-2": (["friends"], ["friends"]),
    }
    await assert_graph_is_right(db)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"subject": "cy"}, "name: is missing"),
        ({"subject": "cy", "name": ""}, "name"),
        ({"subject": "cy", "name": "Cy", "profile": {"website": "javascript:alert(1)"}}, "profile.website"),
        ({"subject": "cy", "name": "Cy", "profile": {"age": 7}}, "profile.age: unknown field"),
        ({"of": "ada", "circle": "", "members": []}, "circle"),
        ({"of": "ada", "circle": "c", "members": ["ada"]}, "members.0: A member cannot be in a circle of their own."),
        ({"of": "ada", "circle": "c", "members": ["bo", "cy"]}, "members.1: 'cy' is no member. Import people first."),
        ({"of": "cy", "circle": "c", "members": []}, "of: 'cy' is no member. Import people first."),
        ({"a": 1, "b": [2]}, "b: must be a number or a string"),
        ({"ego": 0, "circle": "c", "members": 7}, "members: must be a list"),
        ([], "must be an object"),
    ],
)
async def test_an_invalid_record_stops_no_others(db: Database, tmp_path: Path, record: Any, reason: str) -> None:
    counts, bad = await run(db, tmp_path, ADA, BO, record, CIRCLE)

    assert counts == {"created": 3, "failed": 1}
    assert (list(bad), bad[3].startswith(reason)) == ([3], True), bad
    await assert_graph_is_right(db)


async def test_an_import_that_crashes_anywhere_is_finished_by_a_second_one_or_by_jobs(
    db: Database, clock: SettableClock, tmp_path: Path
) -> None:
    records = [ADA, BO, {"subject": "cy", "name": "Cy"}, {**CIRCLE, "members": ["bo", "cy"]}, {"a": "bo", "b": "cy"}]
    await join(db, "dee")
    await db["social.members"].update_one({"_id": "dee"}, {"$set": {"is_merged": True}})
    records.append({"of": "ada", "circle": "merged", "members": ["dee"]})
    for crashing_db in CrashingDatabases(db, some_stops(2)):
        for name in ("social.members", "social.relations"):
            await db[name].delete_many({"_id": {"$ne": "dee"}})
        with contextlib.suppress(Crash):
            await run(crashing_db, tmp_path, *records)
        clock.advance(seconds=31)
        await relation_jobs.finish_relations(db, now=clock.now())
        await assert_graph_is_right(db)

        await run(db, tmp_path, *records)

        assert await db["social.relations"].count_documents({"circles.0": {"$exists": True}}) == 5
        assert await db["social.relations"].count_documents({"is_merged": True}) == 1
        await assert_graph_is_right(db)


async def test_a_real_ego_network_is_imported_with_its_circles(db: Database, tmp_path: Path) -> None:
    """The network of person 0: 10 of its circles, and its members."""
    known = [one for one in rows("facebook_people") if one["id"] == 0 or 0 in one["networks"]]
    circles = [one for one in rows("facebook_circles") if one["ego"] == 0][:10]

    counts, bad = await run(db, tmp_path, *known, *circles)

    assert (counts, bad) == ({"created": len(known) + 10}, {})
    for one in circles:
        stored = await db["social.relations"].count_documents({"of": "0", "circles": one["circle"]})
        assert stored == one["size"]
    await assert_graph_is_right(db)


FEED = "{ viewer { newsFeed(first: 100) { nodes { by { userId name } posted ... on StatusPost { text } } } } }"
WALL = """
query ($id: ID!) { user(id: $id) { name wall(first: 100) { nodes { id posted ... on LinkPost { url text } } } } }
"""


async def test_a_blog_is_imported_as_posts_of_its_authors_and_delivered_to_their_followers(
    gateway: GatewayClient, tmp_path: Path
) -> None:
    given = real_data.rows("posts")
    file = real_data.write(tmp_path / "posts.jsonl", given)
    # Dwight follows an author before the posts are there.
    author = given[1]["authors"][0]
    await join(gateway.db, "dwight", author, follows={"dwight": [author]})

    first = await gateway.import_records("wall-posts", file)
    again = await gateway.import_records("wall-posts", file)
    await gateway.run_jobs("deliver-posts")

    assert (first, again) == ({"created": 300}, {"unchanged": 300})
    shown = (await gateway.as_caller("dwight").data(FEED))["viewer"]["newsFeed"]["nodes"]
    wanted = [(row["date"], row["text"].strip()) for row in given if row["authors"][0] == author]
    assert sorted((post["posted"][:10], post["text"]) for post in shown) == sorted(wanted)
    assert [post["posted"] for post in shown] == sorted((post["posted"] for post in shown), reverse=True)
    assert await gateway.db["social.members"].count_documents({}) == len(
        {row["authors"][0] for row in given} | {"dwight"}
    )
    await assert_invariants(gateway)


async def test_a_record_can_name_another_wall_a_link_and_an_audience(gateway: GatewayClient, tmp_path: Path) -> None:
    await join(gateway.db, "max", "dwight")
    await circle(gateway.db, "max", "dwight", name="work")
    rows: list[real_data.Line] = [
        {
            "id": "1",
            "author": "dwight",
            "to": "max",
            "url": "https://example.org",
            "posted": "2024-12-01T08:30:00+01:00",
        },
        {"id": "2", "author": {"id": "max", "name": "Other"}, "text": "x", "audience": "SELECTED", "circles": ["work"]},
        {"id": "3", "author": "max", "text": "x", "audience": "SELECTED", "circles": ["chess"]},
        {"id": "4", "author": "max", "text": "x", "to": "nobody"},
        {"id": "5", "author": "max", "url": "javascript:alert(1)"},
        {"id": "6", "author": "max", "text": "x", "audience": "FRIENDS"},
        {"id": "7", "text": "x"},
    ]

    counts = await gateway.import_records("wall-posts", real_data.write(tmp_path / "rows.jsonl", rows))
    again = await gateway.import_records("wall-posts", real_data.write(tmp_path / "rows.jsonl", rows[:2]))

    assert (counts, again) == ({"created": 2, "failed": 5}, {"unchanged": 2})
    wall = (await gateway.as_caller("max").data(WALL, {"id": user_id("max")}))["user"]
    assert wall["name"] == "Max"
    found = [(post["posted"][:10], post.get("url")) for post in wall["wall"]["nodes"]]
    assert found[1:] == [("2024-12-01", "https://example.org")]
    assert found[0][1] is None
    assert (await gateway.db["social.posts"].find_one({"by.id": "dwight"}) or {})["to"] == {"id": "max", "name": "Max"}


async def test_a_deleted_post_is_not_imported_again(gateway: GatewayClient, tmp_path: Path) -> None:
    file = real_data.write(tmp_path / "rows.jsonl", [{"id": "1", "author": "max", "text": "x"}])
    await gateway.import_records("wall-posts", file)
    (post,) = await gateway.db["social.posts"].find({}).to_list()
    deletion = "mutation ($id: ID!) { deletePost(input: {postId: $id}) { __typename } }"
    await gateway.as_caller("max").data(deletion, {"id": Kind.encode_id("Post", post["_id"])})

    assert await gateway.import_records("wall-posts", file) == {"failed": 1}


@pytest.mark.parametrize(
    ("before", "after", "reached"),
    [
        ({"audience": "CIRCLES"}, {}, {"dwight", "jared"}),
        ({"audience": "SELECTED", "circles": ["chess"]}, {"audience": "CIRCLES"}, {"dwight"}),
        ({"audience": "SELECTED", "circles": ["chess"]}, {"audience": "SELECTED", "circles": ["work"]}, {"dwight"}),
    ],
)
async def test_an_import_that_widens_the_audience_reaches_the_feeds_of_the_followers(
    gateway: GatewayClient, tmp_path: Path, before: dict[str, Any], after: dict[str, Any], reached: set[str]
) -> None:
    await join(gateway.db, "max", "dwight", "jared", "moe", follows=dict.fromkeys(("dwight", "jared"), ("max",)))
    await circle(gateway.db, "max", "dwight", name="work")
    await circle(gateway.db, "max", "moe", name="chess")
    record = {"id": "1", "author": "max", "text": "x", "posted": "2024-12-01T08:30:00Z"}
    await gateway.import_records("wall-posts", real_data.write(tmp_path / "a.jsonl", [{**record, **before}]))
    await gateway.run_jobs("deliver-posts")
    assert reached - await _readers(gateway)

    counts = await gateway.import_records("wall-posts", real_data.write(tmp_path / "b.jsonl", [{**record, **after}]))
    await gateway.run_jobs("deliver-posts")

    assert counts == {"changed": 1}
    assert await _readers(gateway) == reached
    await assert_invariants(gateway)


async def _readers(gateway: GatewayClient) -> set[str]:
    """Returns the members who have a post in their news feeds."""
    feeds = {name: (await gateway.as_caller(name).data(FEED))["viewer"] for name in ("dwight", "jared", "moe")}
    return {name for name, viewer in feeds.items() if viewer["newsFeed"]["nodes"]}


async def test_a_stored_post_gets_only_an_audience_that_a_new_one_could_have(
    gateway: GatewayClient, tmp_path: Path
) -> None:
    record: real_data.Line = {"id": "1", "author": "max", "text": "x"}
    await gateway.import_records("wall-posts", real_data.write(tmp_path / "a.jsonl", [record]))
    wrong: list[real_data.Line] = [
        {"audience": "SELECTED", "circles": ["chess"]},
        {"audience": "SELECTED"},
        {"circles": ["chess"]},
    ]
    for number, fields in enumerate(wrong):
        file = real_data.write(tmp_path / f"{number}.jsonl", [{**record, **fields}])
        assert await gateway.import_records("wall-posts", file) == {"failed": 1}
    (post,) = await gateway.db["social.posts"].find({}).to_list()
    assert (post["audience"], post["circles"]) == ("PUBLIC", [])


@pytest.mark.parametrize("is_merged", [False, True])
async def test_an_imported_post_is_news_only_if_it_was_posted_lately(
    gateway: GatewayClient, tmp_path: Path, is_merged: bool
) -> None:
    await join(gateway.db, "max", "dwight", "jared", follows=dict.fromkeys(("dwight", "jared"), ("max",)))
    now = gateway.state.clock.now()
    ages = {"years": timedelta(days=4_000), "yesterday": timedelta(hours=25), "today": timedelta(hours=23)}
    rows: list[real_data.Line] = [
        {"id": name, "author": "max", "text": name, "posted": f"{(now - age).isoformat()}Z"}
        for name, age in ages.items()
    ]
    async with gateway.as_caller("dwight").subscription(
        "subscription { newsFeedPosted { ... on StatusPost { text } } }"
    ) as posted:
        await gateway.import_records("wall-posts", real_data.write(tmp_path / "a.jsonl", rows))
        await deliver(gateway.db, now=later(5), max_fan_out=1 if is_merged else 9)
        assert (await anext(posted))["newsFeedPosted"] == {"text": "today"}
        await write_post(gateway.db, "max", "new", now=later(6))
        await deliver(gateway.db, now=later(7), max_fan_out=1 if is_merged else 9)
        assert (await anext(posted))["newsFeedPosted"] == {"text": "new"}
    shown = (await gateway.as_caller("dwight").data(FEED))["viewer"]["newsFeed"]["nodes"]
    assert [post["text"] for post in shown] == ["new", "today", "yesterday", "years"]


async def test_months_of_early_years_have_four_digits(gateway: GatewayClient, tmp_path: Path) -> None:
    rows: list[real_data.Line] = [{"id": "1", "author": "max", "text": "x", "posted": "0101-02-03T00:00:00Z"}]
    await gateway.import_records("wall-posts", real_data.write(tmp_path / "a.jsonl", rows))
    query = 'query ($month: String) { user(id: "VXNlcjptYXg") { wall(month: $month) { edges { month } } } }'
    for month in (None, "010102"):
        assert (await gateway.data(query, {"month": month}))["user"]["wall"]["edges"] == [{"month": "010102"}]
