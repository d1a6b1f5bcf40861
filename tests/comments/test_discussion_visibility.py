"""A discussion is as visible as what it is about."""

from __future__ import annotations

from typing import Any

from portico.schema.roles import Role
from tests.support.discussions import ON_EACH, post, post_input
from tests.support.harness import GatewayClient

IDS = "query ($ids: [ID!]!) { nodes(ids: $ids) { __typename id } }"
SUBJECT = """
query ($id: ID!) {
  node(id: $id) { ... on Discussion { subject { __typename ... on BlogEntry { title discussion { id } } } } }
}
"""


async def entry_of(gateway: GatewayClient, **fields: Any) -> Any:
    blog = await gateway.result("createSection", {"kind": "BLOG", "slug": "blog", "title": "Blog"})
    given = {"blogId": blog["content"]["id"], "slug": "entry", "title": "Entry", "text": "Text.", **fields}
    return (await gateway.result("createBlogEntry", given))["content"]


@ON_EACH
async def test_a_discussion_of_a_draft_is_for_editors(gateway: GatewayClient, storage: str) -> None:
    entry = await entry_of(gateway)
    opened = await gateway.result("openDiscussion", {"subjectId": entry["id"], "storage": storage})
    discussion = opened["discussion"]["id"]
    comment = await post(gateway, discussion, roles=[Role.EDITOR])
    ids = {"ids": [entry["id"], discussion, comment["id"]]}
    reader = gateway.token("reader", [])

    async def seen(token: str | None) -> list[bool]:
        return [one is not None for one in (await gateway.data(IDS, ids, token=token))["nodes"]]

    async def written() -> list[str]:
        answers = [
            await gateway.result("openDiscussion", {"subjectId": entry["id"]}, token=reader),
            await gateway.result("postComment", post_input(discussion), token=reader),
            await gateway.result(
                "editComment", {"id": comment["id"], "text": "Mine."}, token=gateway.token("poster", [])
            ),
        ]
        return [answer["__typename"] for answer in answers]

    assert await seen(None) == await seen(reader) == [False] * 3
    assert await seen(gateway.token()) == [True] * 3
    assert await written() == ["NotFound"] * 3
    now = gateway.state.clock.now().isoformat(timespec="milliseconds") + "Z"
    published = await gateway.result("editMetadata", {"id": entry["id"], "nonce": entry["nonce"], "publishOn": now})
    assert published["__typename"] == "ContentPayload"
    assert await seen(None) == [True] * 3
    assert await written() == ["DiscussionPayload", "CommentPayload", "CommentPayload"]


@ON_EACH
async def test_a_discussion_leads_to_its_subject_and_back(gateway: GatewayClient, storage: str) -> None:
    entry = await entry_of(gateway, publishOn="2012-03-09T20:55:36Z")
    opened = await gateway.result("openDiscussion", {"subjectId": entry["id"], "storage": storage})
    discussion = opened["discussion"]["id"]

    found = await gateway.data(SUBJECT, {"id": discussion}, token=None)

    assert found["node"]["subject"] == {"__typename": "BlogEntry", "title": "Entry", "discussion": {"id": discussion}}
    assert (await gateway.data('{ content(path: "/blog") { discussion { id } } }'))["content"]["discussion"] is None
