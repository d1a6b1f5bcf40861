"""Imported posts are on the walls of their authors and in the news feeds of those who follow them."""

from __future__ import annotations

from pathlib import Path

from portico.schema.nodes import encode_id
from tests.support import real_data
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs
from tests.support.social import circle, join

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
    wall = (await gateway.as_caller("max").data(WALL, {"id": encode_id("User", "max")}))["user"]
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
    await gateway.as_caller("max").data(deletion, {"id": encode_id("Post", post["_id"])})

    assert await gateway.import_records("wall-posts", file) == {"failed": 1}
