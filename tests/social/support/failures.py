"""Failures of the mutations of members and posts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bson import ObjectId

from portico.schema.kinds import Kind
from portico.testing.kits import Failing, Failure, fails_with
from tests.social.support.posts import write_post
from tests.social.support.social import join, user_id
from tests.support.harness import GatewayClient

Given = dict[str, Any]
NOBODY = user_id("nobody")
NO_POST = Kind.encode_id("Post", ObjectId())
STATUS = {"detail": {"status": {"text": "Text."}}}


async def _joined_already(gateway: GatewayClient) -> Failure:
    await join(gateway.db, gateway.subject)
    return Failure({"name": "Another"})


async def _not_joined(gateway: GatewayClient) -> Failure:
    return Failure({"name": "Name"}, partial(join, gateway.db, gateway.subject))


def _of_member(given: Given, *missing: str) -> Failing:
    """A failure of a caller who has joined, until these members join."""

    async def fail(gateway: GatewayClient) -> Failure:
        await join(gateway.db, gateway.subject)
        return Failure(given, partial(join, gateway.db, *missing))

    return fail


def _of_itself(given: Given) -> Failing:
    async def fail(gateway: GatewayClient) -> Failure:
        await join(gateway.db, gateway.subject)
        return Failure({"userId": user_id(gateway.subject), **given})

    return fail


def _on_post(given: Callable[[str], Given]) -> Failing:
    async def fail(gateway: GatewayClient) -> Failure:
        await join(gateway.db, gateway.subject)
        post = await write_post(gateway.db, gateway.subject)
        return Failure(given(Kind.encode_id("Post", post["_id"])))

    return fail


FAILURES: dict[tuple[str, str], Failing] = {
    ("join", "Conflict"): _joined_already,
    ("join", "InvalidInput"): fails_with(lambda: {"name": ""}),
    ("updateProfile", "NotFound"): _not_joined,
    ("updateProfile", "InvalidInput"): _of_member({"name": ""}),
    ("addToCircle", "NotFound"): _of_member({"userId": NOBODY, "circle": "a.b"}, "nobody"),
    ("addToCircle", "InvalidInput"): _of_itself({"circle": "a.b"}),
    ("removeFromCircle", "NotFound"): _of_member({"userId": NOBODY, "circle": "a.b"}, "nobody"),
    ("removeFromCircle", "InvalidInput"): _of_itself({"circle": "a.b"}),
    ("block", "NotFound"): _of_member({"userId": NOBODY}, "nobody"),
    ("block", "InvalidInput"): _of_itself({}),
    ("unblock", "NotFound"): _of_member({"userId": NOBODY}, "nobody"),
    ("unblock", "InvalidInput"): _of_itself({}),
    ("createPost", "NotFound"): _of_member({**STATUS, "toId": NOBODY}, "nobody"),
    ("createPost", "InvalidInput"): _of_member({"detail": {"status": {"text": ""}}}),
    ("commentOnPost", "NotFound"): _of_member({"postId": NO_POST, "text": "Text."}),
    ("commentOnPost", "InvalidInput"): _on_post(lambda post: {"postId": post, "text": ""}),
    ("vote", "NotFound"): _of_member({"postId": NO_POST, "option": 0}),
    ("vote", "InvalidInput"): _on_post(lambda post: {"postId": post, "option": 0}),
    ("deletePost", "NotFound"): _of_member({"postId": NO_POST}),
    ("deletePostComment", "NotFound"): _of_member({"postId": NO_POST, "commentId": NO_POST}),
}
# A conflict of posts is temporary. A deletion has no input that could be invalid.
ELSEWHERE = {
    *((name, "Conflict") for name in ("createPost", "commentOnPost", "vote", "deletePostComment")),
    ("deletePostComment", "InvalidInput"),
}
