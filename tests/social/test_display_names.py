"""The names of authors who are members, in every domain."""

from __future__ import annotations

from typing import Any

import pytest

from portico.resolvers.social import member_edits
from tests.social.support.posts import write_post
from tests.social.support.social import block, join, operation, unblock, user_id
from tests.support.harness import GatewayClient

pytestmark = pytest.mark.anyio
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
