"""The visibility of discussions: a viewer sees a discussion only if they see its subject."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId
from structlog.testing import capture_logs

from portico.resolvers.documents import Document
from portico.resolvers.writes.settler import Settler
from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.comments.support.discussions import ON_EACH, open_on, open_on_product, post, post_input
from tests.support.harness import GatewayClient
from tests.support.interruptions import database_of, interrupted

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
async def test_only_editors_see_the_discussion_of_a_draft(gateway: GatewayClient, storage: str) -> None:
    entry = await entry_of(gateway)
    discussion = await open_on(gateway, entry, storage)
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
    await gateway.payload("editMetadata", {"id": entry["id"], "nonce": entry["nonce"], "publishOn": now})
    assert await seen(None) == [True] * 3
    assert await written() == ["DiscussionPayload", "CommentPayload", "CommentPayload"]


@ON_EACH
async def test_who_cannot_see_a_known_discussion_gets_not_found_for_every_input_and_leaves_nothing(
    gateway: GatewayClient, storage: str
) -> None:
    entry = await entry_of(gateway)
    discussion = await open_on(gateway, entry, storage)
    seen = await post(gateway, discussion, roles=[Role.EDITOR])
    before = await _stored(gateway)
    reader = gateway.token("reader", [])
    inputs = [
        {"text": "Mine."},
        {"text": "Mine.", "idempotencyKey": "one"},
        {"text": "Mine.", "idempotencyKey": "one"},
        {"text": " "},
        {"text": " ", "idempotencyKey": "two"},
        {"text": "Mine.", "parentSlug": seen["slug"]},
        {"text": "Mine.", "parentSlug": "none"},
    ]

    answers = [
        await gateway.result("postComment", {"discussionId": discussion, **given}, token=reader) for given in inputs
    ]

    unknown = await gateway.result(
        "postComment", {"discussionId": Kind.encode_id("Discussion", ObjectId()), "text": " "}, token=reader
    )
    assert [(one["__typename"], one["message"]) for one in answers] == [("NotFound", unknown["message"])] * len(inputs)
    assert await _stored(gateway) == before


async def _stored(gateway: GatewayClient) -> list[Document]:
    """Returns all discussions and comments, when everything is settled."""
    await gateway.state.resources.of(Settler).settled(gateway.db)
    names = ("discussions", "comments", "comment_discussions", "comment_pages", "comment_keys")
    return [document for name in names for document in await gateway.db[name].find({}).to_list()]


@ON_EACH
async def test_a_known_discussion_that_is_closed_takes_no_comments(gateway: GatewayClient, discussion: str) -> None:
    await post(gateway, discussion)
    closed = {"closed": {"of": ObjectId(), "by": "x", "is_final": False}}
    await gateway.db["discussions"].update_one({}, {"$set": closed})
    before = await _stored(gateway)

    answer = await gateway.result("postComment", post_input(discussion), token=gateway.token("poster", []))

    assert answer["__typename"] == "NotFound"
    assert await _stored(gateway) == before


@ON_EACH
async def test_a_discussion_has_its_subject_and_a_subject_its_discussion(gateway: GatewayClient, storage: str) -> None:
    entry = await entry_of(gateway, publishOn="2012-03-09T20:55:36Z")
    discussion = await open_on(gateway, entry, storage)

    found = await gateway.data(SUBJECT, {"id": discussion}, token=None)

    assert found["node"]["subject"] == {"__typename": "BlogEntry", "title": "Entry", "discussion": {"id": discussion}}
    assert (await gateway.data('{ content(path: "/blog") { discussion { id } } }'))["content"]["discussion"] is None


GONE = """
query ($id: ID!) {
  node(id: $id) {
    ... on Comment { text discussion { id } }
    ... on Discussion { storage subject { ... on Product { title } } }
  }
  viewer { subject }
}
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("executor", ["compiled", "reference"])
@pytest.mark.parametrize("lost", ["discussions", "products"])
async def test_removal_between_two_reads_of_a_query_is_not_found_and_not_logged(
    gateway: GatewayClient, executor: str, lost: str
) -> None:
    gateway.state.executor.name = executor  # type: ignore[assignment]
    discussion = await open_on_product(gateway, "DOCUMENTS")
    comment = await post(gateway, discussion)
    asked, path = (comment["id"], "discussion") if lost == "discussions" else (discussion, "subject")

    async def remove() -> None:
        await gateway.db[lost].delete_many({})

    # The first read belongs to the visibility rule.
    removing = interrupted(gateway.db, lost, "find", remove, skip=1)
    with database_of(gateway, removing), capture_logs() as log:
        answer = await gateway.ask(GONE, {"id": asked})

    (error,) = answer.body["errors"]
    assert answer.body["data"] == {"node": None, "viewer": {"subject": "tester"}}
    assert (error["path"], error["extensions"]) == (["node", path], {"code": "NOT_FOUND"})
    assert log == []
