"""Failures of the mutations of discussions."""

from __future__ import annotations

from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED
from portico.resolvers.comments.embedded_storage import MAX_POSTED
from portico.schema.kinds import Kind
from portico.testing.kits import Failing, Failure, fails_with
from tests.comments.support import cases
from tests.comments.support.discussions import open_on_product, post, post_input
from tests.support.harness import GatewayClient


async def _full(gateway: GatewayClient) -> Failure:
    """A post into a full discussion. Its repair makes room."""
    discussion = await open_on_product(gateway, EMBEDDED)
    await post(gateway, discussion)
    sizes = gateway.db["comment_discussions"]
    await sizes.update_one({}, {"$set": {"size": MAX_POSTED}})
    return Failure(post_input(discussion), lambda: sizes.update_one({}, {"$set": {"size": 0}}))


async def _no_text(gateway: GatewayClient) -> Failure:
    return Failure(post_input(await open_on_product(gateway, DOCUMENTS), " \n"))


async def _edit_without_text(gateway: GatewayClient) -> Failure:
    comment = await post(gateway, await open_on_product(gateway, DOCUMENTS))
    return Failure({"id": comment["id"], "text": ""})


FAILURES: dict[tuple[str, str], Failing] = {
    ("openDiscussion", "NotFound"): fails_with(lambda: {"subjectId": Kind.encode_id("Product", "none")}),
    ("postComment", "NotFound"): fails_with(lambda: post_input(cases.NO_DISCUSSION)),
    ("postComment", "InvalidInput"): _no_text,
    ("postComment", "DiscussionFull"): _full,
    ("editComment", "NotFound"): fails_with(lambda: {"id": cases.NO_COMMENT, "text": "Text."}),
    ("editComment", "InvalidInput"): _edit_without_text,
    ("deleteComment", "NotFound"): fails_with(lambda: {"id": cases.NO_COMMENT}),
}
