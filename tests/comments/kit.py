"""What the domain comments tells the tests that run on every domain."""

from __future__ import annotations

from portico.testing.kits import Kit
from tests.comments.support import cases, failures, leftovers, seeds, stages
from tests.support.selections import INVALID, NOT_FOUND

_DISCUSSION = "... on DiscussionPayload { discussion { id storage commentCount } }"
_COMMENT = (
    "... on CommentPayload { comment { id slug depth text html deleted posted edited replyCount "
    "author { userId name } parent { slug } } }"
)
MUTATIONS = {
    "openDiscussion": f"{_DISCUSSION} {NOT_FOUND}",
    "postComment": f"{_COMMENT} {INVALID}",
    "editComment": f"{_COMMENT} {INVALID}",
    "deleteComment": f"{_COMMENT} {INVALID}",
}


KIT = Kit(
    adds=("postComment", "Discussion"),
    mutations=MUTATIONS,
    inputs=cases.CASES,
    failures=failures.FAILURES,
    unfailed={
        # A deletion has no input that could be invalid.
        ("deleteComment", "InvalidInput"),
    },
    leftovers={
        "finish-comments": (
            leftovers.closed_discussion,
            leftovers.closing_discussion,
            leftovers.posted_comment,
            leftovers.removed_comment,
            leftovers.posted_comment_of_a_page,
            leftovers.split_page,
        ),
    },
    scattered={
        "find comment_pages split.since",
        "aggregate comments ",
        "aggregate comment_keys ",
        "aggregate comment_pages ",
        "aggregate comment_discussions ",
        "find discussions closed",
        "find discussions closing_at",
        "find discussions under_way.at",
    },
    stages=(stages.Discussion, stages.EmbeddedDiscussion, stages.PagedDiscussion),
    seed=seeds.seed,
)
