"""The names of members: in posts and comments after a rename, and as authors in every domain."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from portico.resolvers.documents import Database
from portico.resolvers.social import member_edits, renames
from tests.social.support.posts import NOW, add_members, deliver, op, write_comment, write_post
from tests.social.support.social import block, join, operation, unblock, user_id
from tests.support.harness import GatewayClient

MINUTE = timedelta(minutes=1)


async def rename(db: Database, member: str, name: str) -> None:
    await member_edits.update_profile(db, subject=member, name=name, profile={}, now=NOW, operation_id=op())


async def names_of(db: Database, member: str) -> set[str]:
    posts = await db["social.posts"].find({}).to_list()
    pages = await db["social.comment_pages"].find({}).to_list()
    authors = [side for post in posts for side in (post["by"], post["to"])]
    authors += [comment["by"] for holder in [*posts, *pages] for comment in holder["comments"]]
    return {author["name"] for author in authors if author["id"] == member}


async def test_posts_walls_comments_and_comment_pages_have_the_new_name_within_a_minute(db: Database) -> None:
    await add_members(db, "max", "dwight")
    await write_post(db, "max")
    other = await write_post(db, "dwight", to="max")
    for number in range(50):
        await write_comment(db, other, "max" if number % 2 else "dwight")

    await rename(db, "max", "Maximilian")
    assert await renames.copy_names(db, now=NOW) == 1

    assert await names_of(db, "max") == {"Maximilian"}
    assert await names_of(db, "dwight") == {"Dwight"}
    assert await renames.copy_names(db, now=NOW) == 0
    assert await renames.copy_names(db, now=NOW + MINUTE) == 1
    assert await db["social.members"].find_one({"renamed": {"$exists": True}}) is None


async def test_a_comment_that_is_written_with_the_old_name_during_the_rename_is_corrected(db: Database) -> None:
    await add_members(db, "max")
    post = await write_post(db, "max")
    await rename(db, "max", "Maximilian")
    await renames.copy_names(db, now=NOW)

    await write_comment(db, post, "max")
    assert await names_of(db, "max") == {"Max", "Maximilian"}
    await renames.copy_names(db, now=NOW + MINUTE)

    assert await names_of(db, "max") == {"Maximilian"}


async def test_a_rename_during_the_second_pass_is_copied_too(db: Database) -> None:
    await add_members(db, "max")
    await write_post(db, "max")
    for name in ("Maximilian", "Maxine"):
        await rename(db, "max", name)
        await renames.copy_names(db, now=NOW + MINUTE)

    assert await names_of(db, "max") == {"Maxine"}


async def test_a_post_that_is_stored_with_outdated_names_is_corrected_when_it_is_delivered(db: Database) -> None:
    await add_members(db, "max", "dwight")
    await rename(db, "max", "Maximilian")
    await rename(db, "dwight", "Dwight D.")
    await renames.copy_names(db, now=NOW + MINUTE)
    post = await write_post(db, "max", to="dwight")
    stale = {"by.name": "Max", "to.name": "Dwight"}
    await db["social.posts"].update_one({"_id": post["_id"]}, {"$set": stale})

    await deliver(db)

    assert await names_of(db, "max") == {"Maximilian"}
    assert await names_of(db, "dwight") == {"Dwight D."}


CREATE = """
mutation ($slug: String!) {
  createPage(input: { slug: $slug, title: "A page", text: "Hello" }) {
    ... on ContentPayload { content { author { userId name displayName } } }
  }
}
"""
PAGE = """query ($path: String!) { content(path: $path) { author { name displayName user { name } } } }"""


async def _create(gateway: GatewayClient, subject: str) -> Any:
    token = gateway.token(subject)
    return (await gateway.data(CREATE, {"slug": subject}, token=token))["createPage"]["content"]["author"]


async def _author(gateway: GatewayClient, path: str, viewer: str | None) -> Any:
    token = None if viewer is None else gateway.token(viewer, [])
    return (await gateway.data(PAGE, {"path": path}, token=token))["content"]["author"]


async def test_an_author_who_is_a_member_has_the_present_name_of_the_member(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann")
    assert await _create(gateway, "ann") == {"userId": "ann", "name": "ann", "displayName": "Ann"}
    assert await _create(gateway, "eve") == {"userId": "eve", "name": "eve", "displayName": "eve"}

    await member_edits.update_profile(gateway.db, subject="ann", name="Anna", profile={}, **operation())

    shown = {"name": "ann", "displayName": "Anna", "user": {"name": "Anna"}}
    assert await _author(gateway, "/ann", None) == shown
    assert await _author(gateway, "/ann", "ann") == shown


async def test_an_author_who_has_blocked_the_viewer_has_the_name_of_that_time(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    await _create(gateway, "ann")
    await block(gateway.db, "ann", "bob")
    await member_edits.update_profile(gateway.db, subject="ann", name="Anna", profile={}, **operation())

    hidden = {"name": "ann", "displayName": "ann", "user": None}
    assert await _author(gateway, "/ann", "bob") == hidden
    await unblock(gateway.db, "ann", "bob")
    assert (await _author(gateway, "/ann", "bob"))["displayName"] == "Anna"


async def test_the_names_of_all_authors_of_a_page_take_one_read(gateway: GatewayClient) -> None:
    await join(gateway.db, "max", "ann", "bob", "cem")
    for name in ("ann", "bob", "cem"):
        await write_post(gateway.db, name, to="max")
    gateway.commands.clear()
    query = "query ($id: ID!) { user(id: $id) { wall { nodes { by { displayName user { name } } } } } }"

    found = await gateway.data(query, {"id": user_id("max")}, token=None)

    names = sorted(post["by"]["displayName"] for post in found["user"]["wall"]["nodes"])
    assert names == ["Ann", "Bob", "Cem"]
    assert sorted(gateway.commands.names()) == ["find social.members", "find social.members", "find social.posts"]
