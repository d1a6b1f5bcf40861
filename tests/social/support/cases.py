"""Inputs of the mutations of members and posts, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from portico.schema.kinds import Kind
from tests.social.support.posts import write_comment, write_post
from tests.social.support.social import block, circle, join, user_id
from tests.support.harness import GatewayClient

Given = dict[str, Any]
Case = Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]
# Everybody who calls a mutation in these tests, and a member whom they call it about.
_CALLERS = ("tester", "one", "another")
_OTHERS = ("mara", "jonas")


def _ids() -> list[str]:
    return [user_id(name) for name in _OTHERS]


async def _members(gateway: GatewayClient) -> None:
    await join(gateway.db, *_CALLERS, *_OTHERS)


async def _update_profile(gateway: GatewayClient) -> tuple[Given, Given]:
    await _members(gateway)
    return {"name": "Ann"}, {"name": "Bob"}


async def _add_to_circle(gateway: GatewayClient) -> tuple[Given, Given]:
    await _members(gateway)
    one, other = ({"userId": key, "circle": "a.b"} for key in _ids())
    return one, other


async def _remove_from_circle(gateway: GatewayClient) -> tuple[Given, Given]:
    cases = await _add_to_circle(gateway)
    for caller in _CALLERS:
        await circle(gateway.db, caller, *_OTHERS, name="a.b")
    return cases


async def _block(gateway: GatewayClient) -> tuple[Given, Given]:
    await _members(gateway)
    one, other = ({"userId": key} for key in _ids())
    return one, other


async def _unblock(gateway: GatewayClient) -> tuple[Given, Given]:
    cases = await _block(gateway)
    for caller in _CALLERS:
        await block(gateway.db, caller, *_OTHERS)
    return cases


async def _create_post(gateway: GatewayClient) -> tuple[Given, Given]:
    await _members(gateway)
    one, other = ({"detail": {"status": {"text": text}}} for text in ("One", "Two"))
    return one, other


async def _posts(gateway: GatewayClient) -> tuple[Given, Given]:
    """Two polls on the wall of a member that everybody sees."""
    await _members(gateway)
    detail = {"text": "Tabs?", "options": ["Yes", "No"]}
    posts = [await write_post(gateway.db, "mara", kind="poll", detail=detail) for _ in range(2)]
    one, other = ({"postId": Kind.encode_id("Post", post["_id"])} for post in posts)
    return one, other


async def _comment(gateway: GatewayClient) -> tuple[Given, Given]:
    one, other = await _posts(gateway)
    return {**one, "text": "One"}, {**other, "text": "Two"}


async def _vote(gateway: GatewayClient) -> tuple[Given, Given]:
    one, other = await _posts(gateway)
    return {**one, "option": 0}, {**other, "option": 1}


async def _delete_comment(gateway: GatewayClient) -> tuple[Given, Given]:
    await _members(gateway)
    found = []
    for _ in range(2):
        post = await write_post(gateway.db, "mara")
        comment = await write_comment(gateway.db, post, "jonas")
        found.append(
            {"postId": Kind.encode_id("Post", post["_id"]), "commentId": Kind.encode_id("PostComment", comment)}
        )
    return found[0], found[1]


# A caller joins once, so there are no two inputs of `join`.
CASES: dict[str, Case] = {
    "updateProfile": _update_profile,
    "addToCircle": _add_to_circle,
    "removeFromCircle": _remove_from_circle,
    "block": _block,
    "unblock": _unblock,
    "createPost": _create_post,
    "commentOnPost": _comment,
    "vote": _vote,
    "deletePost": _posts,
    "deletePostComment": _delete_comment,
}
