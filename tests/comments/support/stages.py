"""A discussion in each storage, and what is written to it."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest.mock import ANY

from portico.resolvers.comments import buckets, page_storage
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from portico.resolvers.comments.storages import count_comments
from portico.schema.roles import Role
from portico.testing.kits import Given
from portico.testing.stages import Case, Stage
from tests.comments.support.discussions import delete, open_on_product, post, post_input
from tests.content.support.site import create_entry, create_section
from tests.support.ids import key_in

# The listed comments: the text, whether the comment is deleted, and the number of replies.
Rows = list[tuple[str, bool, int]]
BEFORE: Rows = [
    ("Top.", False, 1),
    ("Middle.", False, 1),
    ("Last.", False, 0),
    ("Other.", False, 0),
    ("", True, 1),
    ("", True, 1),
    ("Below.", False, 0),
]
SEEN = """
query ($id: ID!) {
  node(id: $id) {
    ... on Discussion {
      commentCount
      comments(first: 100) { nodes { slug text deleted replyCount } }
      latest: comments(first: 100, order: CHRONOLOGICAL) { nodes { slug } }
    }
  }
}
"""
MUTATIONS = ("postComment", "editComment", "deleteComment")
# So many comments fill a page. The next one splits it.
FULL = len(BEFORE)
# To a call that pauses, another one has deleted the comment.
_GONE = ("NotFound",)


def changed(text: str, *rows: tuple[str, bool, int]) -> Rows:
    """Returns the initial rows with these in place of the one with this text."""
    at = [row[0] for row in BEFORE].index(text)
    return [*BEFORE[:at], *rows, *BEFORE[at + 1 :]]


CASES = {
    "a post that splits a page": Case(
        "postComment",
        lambda stage: post_input(stage.discussion, "New."),
        "CommentPayload",
        [*BEFORE, ("New.", False, 0)],
    ),
    "a reply that splits a page": Case(
        "postComment",
        lambda stage: post_input(stage.discussion, "New.", stage.comments["Middle."]["slug"]),
        "CommentPayload",
        [BEFORE[0], ("Middle.", False, 2), BEFORE[2], ("New.", False, 0), *BEFORE[3:]],
    ),
    "a post that is refused": Case("postComment", lambda stage: post_input(stage.draft, "New."), "NotFound", BEFORE),
    "a reply that is refused": Case(
        "postComment", lambda stage: post_input(stage.draft, "New.", stage.hidden["slug"]), "NotFound", BEFORE
    ),
    "an edit": Case(
        "editComment",
        lambda stage: {**stage.of("Middle."), "text": "Edited."},
        "CommentPayload",
        changed("Middle.", ("Edited.", False, 1)),
        {"comment": {"slug": ANY, "text": "Edited."}},
    ),
    "deleting what has no replies": Case(
        "deleteComment",
        lambda stage: stage.of("Last."),
        "CommentPayload",
        [BEFORE[0], ("Middle.", False, 0), *BEFORE[3:]],
        overtaken=_GONE,
    ),
    "deleting what replies to nothing": Case(
        "deleteComment", lambda stage: stage.of("Other."), "CommentPayload", changed("Other."), overtaken=_GONE
    ),
    "deleting what has replies": Case(
        "deleteComment",
        lambda stage: stage.of("Middle."),
        "CommentPayload",
        changed("Middle.", ("", True, 1)),
        overtaken=_GONE,
    ),
    "deleting the last below what is deleted": Case(
        "deleteComment", lambda stage: stage.of("Below."), "CommentPayload", BEFORE[:4], overtaken=_GONE
    ),
}


class Discussion(Stage):
    """Threads of three comments, of one, and of one below two that are deleted. Together they fill a page.

    There is a comment on a draft, too, which the author of the others does not see.
    """

    collections = ("discussions", "comments", "comment_discussions", "comment_pages", "comment_keys", "operations")
    job_names = ("finish-comments",)
    job_seconds = 40
    next_run = 31
    before = BEFORE
    cases = CASES
    selections = dict.fromkeys(MUTATIONS, "... on CommentPayload { comment { slug text } }")
    constants: ClassVar[Any] = {(module, "FULL"): FULL for module in (buckets, page_storage)}
    # Each run tries each case on one of the storages, and other ones on another.
    sample = 3
    storage: ClassVar[str] = DOCUMENTS

    async def build(self) -> None:
        self.discussion = await open_on_product(self.gateway, self.storage)
        self.comments: dict[str, Any] = {}
        for text, parent in (
            ("Top.", None),
            ("Middle.", "Top."),
            ("Last.", "Middle."),
            ("Other.", None),
            ("Gone.", None),
            ("Gone, too.", "Gone."),
            ("Below.", "Gone, too."),
        ):
            slug = self.comments[parent]["slug"] if parent else None
            self.comments[text] = await post(self.gateway, self.discussion, text, slug)
            # Comments are listed by their time.
            self.clock.advance(seconds=1)
        for text in ("Gone.", "Gone, too."):
            await delete(self.gateway, self.comments[text])
        entry = await create_entry(self.gateway, await create_section(self.gateway, "BLOG"), publishOn=None)
        given = {"subjectId": entry["id"], "storage": self.storage}
        self.draft = (await self.gateway.result("openDiscussion", given))["discussion"]["id"]
        self.hidden = await post(self.gateway, self.draft, "Hidden.", by="editor", roles=[Role.EDITOR])

    def of(self, text: str) -> Given:
        return {"id": self.comments[text]["id"]}

    def token(self, _mutation: str) -> str:
        token: str = self.gateway.token("poster", [])
        return token

    async def seen(self) -> Any:
        return (await self.gateway.data(SEEN, {"id": self.discussion}, token=None))["node"]

    async def state(self) -> Rows:
        rows = (await self.seen())["comments"]["nodes"]
        return [(row["text"], row["deleted"], row["replyCount"]) for row in rows]

    async def assert_settled(self) -> None:
        """Asserts that nothing is in flight, and that each list has as many comments as are counted."""
        assert await self.gateway.db["discussions"].find_one({"under_way": {"$ne": []}}) is None
        assert await self.gateway.db["comment_pages"].find_one({"split": {"$exists": True}}) is None
        seen = await self.seen()
        threads, by_time = [sorted(row["slug"] for row in seen[name]["nodes"]) for name in ("comments", "latest")]
        assert threads == by_time
        assert len(threads) == seen["commentCount"]
        draft = key_in("Discussion", self.draft)
        assert await count_comments(self.gateway.db, {draft: self.storage}) == {draft: 1}
        await super().assert_settled()


class EmbeddedDiscussion(Discussion):
    storage = EMBEDDED


class PagedDiscussion(Discussion):
    storage = PAGES
