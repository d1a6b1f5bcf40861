"""The commands that writes to discussions and their jobs send: each uses an index and goes to one shard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from tests.comments.support.discussions import ON_EACH, post, post_input
from tests.support.explaining import explain
from tests.support.harness import GatewayClient
from tests.support.interruptions import crashing
from tests.support.routing import unroutable
from tests.support.selections import shortest

# The reads of the discussion, and of the product that it is about.
_LOOK = ["find discussions", "find products"]
_COMMENT = {
    DOCUMENTS: ["find comments"],
    EMBEDDED: ["aggregate comment_discussions", "find comment_discussions"],
    PAGES: ["aggregate comment_pages"],
}
BUDGETS: dict[str, dict[str, list[str]]] = {
    "a first comment": {
        # The process knows the discussion.
        DOCUMENTS: ["find products", "insert comments", *["update discussions"] * 2],
        EMBEDDED: [*_LOOK, "update comment_discussions"],
        PAGES: [
            "find products",
            "find comment_pages",
            "insert comment_keys",
            "update comment_pages",
            *["update discussions"] * 2,
        ],
    },
    "a reply": {
        DOCUMENTS: [
            *_LOOK,
            "find comments",
            *["findAndModify comments"] * 2,
            "insert comments",
            *["update discussions"] * 2,
        ],
        EMBEDDED: [*_LOOK, *_COMMENT[EMBEDDED], "update comment_discussions"],
        PAGES: [
            *_LOOK,
            "aggregate comment_pages",
            "find comment_keys",
            "find comment_pages",
            *["findAndModify comment_pages"] * 2,
            "insert comment_keys",
            "update comment_pages",
            *["update discussions"] * 2,
        ],
    },
    "an edit": {
        DOCUMENTS: [*_LOOK, *_COMMENT[DOCUMENTS], "findAndModify comments"],
        EMBEDDED: [*_LOOK, *_COMMENT[EMBEDDED] * 3, "update comment_discussions"],
        PAGES: [*_LOOK, *_COMMENT[PAGES], "findAndModify comment_pages"],
    },
    "a deletion": {
        DOCUMENTS: [
            *_LOOK,
            *_COMMENT[DOCUMENTS] * 2,
            *["findAndModify comments"] * 4,
            "findAndModify discussions",
            "update discussions",
        ],
        EMBEDDED: [*_LOOK, *_COMMENT[EMBEDDED] * 2, "update comment_discussions"],
        PAGES: [
            *_LOOK,
            *_COMMENT[PAGES] * 2,
            *["findAndModify comment_pages"] * 4,
            "findAndModify discussions",
            "update comment_keys",
            "update discussions",
        ],
    },
}


async def assert_found(gateway: GatewayClient) -> None:
    """Assert that the commands since the last reset use indexes for filters and orders, and name their shard."""
    sent = list(gateway.commands.sent)
    plans = [plan for command in sent for plan in await explain(gateway.db, command)]
    assert [plan.name for plan in plans if plan.scans_collection or plan.sorts_in_memory] == []
    assert unroutable(sent) == []


@ON_EACH
async def test_every_write_sends_the_commands_of_its_budget(
    gateway: GatewayClient, storage: str, discussion: str
) -> None:
    parent = await post(gateway, discussion)
    reply = await post(gateway, discussion, parent=parent["slug"])
    poster = gateway.token("poster", [])
    # The selection is minimal, so that all commands belong to the write.
    comment = "__typename ... on CommentPayload { comment { slug } }"

    async def asked(mutation: str, given: Any) -> list[str]:
        query = shortest(mutation).replace("__typename", comment)
        gateway.commands.clear()
        answer = await gateway.data(query, {"input": given}, token=poster)
        assert answer[mutation]["__typename"] == "CommentPayload"
        sent = sorted(gateway.commands.names())
        await assert_found(gateway)
        return sent

    calls: dict[str, Callable[[], Awaitable[list[str]]]] = {
        "a first comment": lambda: asked("postComment", post_input(discussion)),
        "a reply": lambda: asked("postComment", post_input(discussion, parent=parent["slug"])),
        "an edit": lambda: asked("editComment", {"id": reply["id"], "text": "Edited."}),
        "a deletion": lambda: asked("deleteComment", {"id": reply["id"]}),
    }
    for name, call in calls.items():
        assert await call() == sorted(BUDGETS[name][storage]), name


@ON_EACH
async def test_the_job_finishes_writes_by_indexed_commands(
    gateway: GatewayClient, storage: str, discussion: str
) -> None:
    parent = await post(gateway, discussion)
    for stop in range(5):
        with crashing(gateway, stop):
            await gateway.ask(shortest("postComment"), {"input": post_input(discussion, parent=parent["slug"])})
    gateway.clock.advance(seconds=40)
    gateway.commands.clear()

    await gateway.run_jobs()

    jobs = [command for command in gateway.commands.sent if _is_ours(command)]
    gateway.commands.sent[:] = [one for one in jobs if not _is_the_look(one)]
    # Writes to an embedded discussion leave nothing to finish.
    assert bool(gateway.commands.sent) is (storage != EMBEDDED)
    await assert_found(gateway)
    assert await gateway.db["discussions"].find_one({"under_way": {"$ne": []}}) is None


def _is_ours(command: Any) -> bool:
    return str(command[next(iter(command))]).startswith(("comment", "discussions"))


def _is_the_look(command: Any) -> bool:
    """Return whether the command is a search for unfinished work, which goes to all shards."""
    return {"under_way.at", "closing_at", "split.since", "schema_version"} & set(command.get("filter", {})) != set()
