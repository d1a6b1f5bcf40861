"""Failures of the mutations of discussions."""

from __future__ import annotations

from portico.schema.kinds import Kind
from portico.testing.kits import Failing, Failure, fails_with
from tests.comments.support import cases
from tests.comments.support.discussions import post_input
from tests.support.harness import GatewayClient


async def _full(gateway: GatewayClient) -> Failure:
    return Failure(*await cases.post_into_full_discussion(gateway))


async def _no_text(gateway: GatewayClient) -> Failure:
    return Failure(await cases.post_without_text(gateway))


async def _edit_without_text(gateway: GatewayClient) -> Failure:
    return Failure(await cases.edit_without_text(gateway))


FAILURES: dict[tuple[str, str], Failing] = {
    ("openDiscussion", "NotFound"): fails_with(lambda: {"subjectId": Kind.encode_id("Product", "none")}),
    ("postComment", "NotFound"): fails_with(lambda: post_input(cases.NO_DISCUSSION)),
    ("postComment", "InvalidInput"): _no_text,
    ("postComment", "DiscussionFull"): _full,
    ("editComment", "NotFound"): fails_with(lambda: {"id": cases.NO_COMMENT, "text": "Text."}),
    ("editComment", "InvalidInput"): _edit_without_text,
    ("deleteComment", "NotFound"): fails_with(lambda: {"id": cases.NO_COMMENT}),
}
