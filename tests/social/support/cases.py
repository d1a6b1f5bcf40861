"""Inputs and failures of the mutations of members and posts, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from bson import ObjectId

from portico.schema.kinds import Kind
from portico.testing.kits import Failing, Failure, fails_with
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


NOBODY = user_id("nobody")
NO_POST = Kind.encode_id("Post", ObjectId())
STATUS = {"detail": {"status": {"text": "Text."}}}


async def _joined_already(gateway: GatewayClient) -> Failure:
    await join(gateway.db, gateway.subject)
    return Failure({"name": "Another"})


async def _not_joined(gateway: GatewayClient) -> Failure:
    return Failure({"name": "Name"}, partial(join, gateway.db, gateway.subject))


def _of_member(given: Given, *missing: str) -> Failing:
    """A failure of a caller who has joined: until these members join, or for good."""

    async def fail(gateway: GatewayClient) -> Failure:
        await join(gateway.db, gateway.subject)
        return Failure(given, partial(join, gateway.db, *missing)) if missing else Failure(given)

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
