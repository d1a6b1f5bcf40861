"""Imported posts are on the walls of their authors and in the news feeds of those who follow them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from portico.schema.kinds import Kind
from tests.social.support.posts import deliver, later, write_post
from tests.social.support.social import circle, join, user_id
from tests.support import real_data
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs

FEED = "{ viewer { newsFeed(first: 100) { nodes { by { userId name } posted ... on StatusPost { text } } } } }"
WALL = """
query ($id: ID!) { user(id: $id) { name wall(first: 100) { nodes { id posted ... on LinkPost { url text } } } } }
"""


async def test_a_blog_is_imported_as_posts_of_its_authors_and_delivered_to_their_followers(
    gateway: GatewayClient, clock: SettableClock, tmp_path: Path
) -> None:
    given = real_data.rows("posts")
    file = real_data.write(tmp_path / "posts.jsonl", given)
    # Dwight follows an author before the posts are there.
    author = given[1]["authors"][0]
    await join(gateway.db, "dwight", author)
    await circle(gateway.db, "dwight", author)

    first = await gateway.import_records("wall-posts", file)
    again = await gateway.import_records("wall-posts", file)
    await run_jobs(gateway, clock, "deliver-posts")

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
    gateway: GatewayClient,
    clock: SettableClock,
    tmp_path: Path,
    before: dict[str, Any],
    after: dict[str, Any],
    reached: set[str],
) -> None:
    await join(gateway.db, "max", "dwight", "jared", "moe")
    for follower in ("dwight", "jared"):
        await circle(gateway.db, follower, "max")
    await circle(gateway.db, "max", "dwight", name="work")
    await circle(gateway.db, "max", "moe", name="chess")
    record = {"id": "1", "author": "max", "text": "x", "posted": "2024-12-01T08:30:00Z"}
    await gateway.import_records("wall-posts", real_data.write(tmp_path / "a.jsonl", [{**record, **before}]))
    await run_jobs(gateway, clock, "deliver-posts")
    assert reached - await _readers(gateway)

    counts = await gateway.import_records("wall-posts", real_data.write(tmp_path / "b.jsonl", [{**record, **after}]))
    await run_jobs(gateway, clock, "deliver-posts")

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
    await join(gateway.db, "max", "dwight", "jared")
    for follower in ("dwight", "jared"):
        await circle(gateway.db, follower, "max")
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
