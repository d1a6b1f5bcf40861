"""Posts: the records. The collection and its reads.

Unlike in the source, a wall and a news feed refer to posts and hold no copies of them. So a comment, a vote, a rename
or a deletion is one update, whatever the number of feeds, and no reader sees an outdated copy.

Source: MongoDB Applied Design Patterns, ch. 8.
"""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.documents import Author, CollectionSpec, Document, Versioned
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import Repeatable

# Who sees a post, besides its author and the owner of the wall.
PUBLIC, CIRCLES, SELECTED = "PUBLIC", "CIRCLES", "SELECTED"
AUDIENCES = (PUBLIC, CIRCLES, SELECTED)
# The comments of one page.
PAGE = 20
# While a post holds this many comments, new ones wait until some have moved.
MOST_HELD = 60
# The index of the posts that news feeds may lack, by author.
PENDING = "pending"

# What every post fulfils, and only the list of all posts asks for.
EVERYWHERE: Document = {"walls.0": {"$exists": True}}
# Deleted posts stay for a while. No list has to read past them.
_LIVE: Document = {"deleted": None}
_NEWEST = (("posted", DESCENDING), ("_id", DESCENDING))


def _list(name: str, *paths: str, only: Document | None = None) -> IndexModel:
    """Returns the index of the posts with the same values at these paths, newest first."""
    keys = [*((path, ASCENDING) for path in paths), *_NEWEST]
    return IndexModel(keys, name=name, partialFilterExpression={**_LIVE, **(only or {})})


class PostDetail(TypedDict):
    """The fields of a post's type."""

    text: str
    url: NotRequired[str]
    # The `_id` of a photo of the site.
    photo: NotRequired[ObjectId]
    place: NotRequired[str]
    latitude: NotRequired[float]
    longitude: NotRequired[float]
    options: NotRequired[list[str]]


class StoredComment(TypedDict):
    """A comment on a post."""

    id: ObjectId
    by: Author
    posted: datetime
    text: str


class FanOut(TypedDict):
    """News feeds may lack the post; see `fan_out`."""

    # The last follower who has it.
    after: str | None
    due: datetime
    op: NotRequired[str]


class PostDocument(Repeatable):
    """A post."""

    _id: ObjectId
    # The author, and the member on whose wall it is.
    by: Author
    to: Author
    # The author and, if another, the wall's owner second.
    walls: list[str]
    # PUBLIC, CIRCLES or SELECTED.
    audience: str
    # With SELECTED, the circles of the author that may see it.
    circles: list[str]
    # status, link, photo, checkin or poll.
    type: str
    detail: PostDetail
    posted: datetime
    # When it was stored. Only an imported post has been posted before.
    created: datetime
    # The latest comments, oldest first. Each is posted later than the one before.
    comments: list[StoredComment]
    # All comments, also those in `comment_pages`.
    comment_count: int
    # When its latest comment was posted, even if that comment has been deleted; missing before the first.
    commented: NotRequired[datetime]
    # How many comments have been moved to `comment_pages`.
    spilled: int
    # Incremented by every change of the stored comments, but not by a new comment.
    version: int
    # Comments that are being removed from their page. No reader shows them.
    removing: NotRequired[list[ObjectId]]
    # True if it has no entries, because its author is merged on read. Set when it counts as delivered.
    is_merged: NotRequired[bool]
    # True if it was too old to be news when `is_merged` was set.
    is_old: NotRequired[bool]
    fan_out: NotRequired[FanOut]
    # When it was deleted. No reader shows it.
    deleted: NotRequired[datetime]
    # When a job next removes what belongs to the deleted post.
    remove_at: NotRequired[datetime]


class ShownPost(PostDocument):
    """A post as lists read it."""

    # The authors of all comments, of which it has the latest only.
    commenters: NotRequired[list[str]]


class PageKey(TypedDict):
    """The page of a post: the number of comments that had moved before it: 0, 20, 40, …"""

    post: ObjectId
    page: int


class CommentPage(Versioned):
    """Older comments of a post than those in its document. It is valid once the post's `spilled` is above its page."""

    _id: PageKey
    post: ObjectId
    # The version of the post when the page was written.
    version: int
    comments: list[StoredComment]


class SlotKey(TypedDict):
    """A slot of the votes of a poll, by the hash of the voter."""

    post: ObjectId
    slot: int


class Voter(TypedDict):
    """Who voted for which option."""

    id: str
    option: int
    # When they voted first; missing in older votes.
    at: NotRequired[datetime]


class VoteSlot(Repeatable):
    """Votes of a poll. One update changes a vote together with its counts."""

    _id: SlotKey
    post: ObjectId
    # By option.
    votes: list[int]
    voters: list[Voter]


POSTS = CollectionSpec(
    "social.posts",
    document=PostDocument,
    indexes=[
        # A wall. Somebody without a token sees the public posts only.
        _list("wall", "walls", "audience"),
        # All public posts. Of all lists, only this one names the first wall, so that no other one takes this index.
        _list("timeline", "audience", only={"audience": PUBLIC, **EVERYWHERE}),
        # The posts that others have written on a wall: all, and those by some authors.
        _list("incoming", "walls.1", only={"walls.1": {"$exists": True}}),
        _list("to", "to.id", "by.id"),
        # The posts by an author: by audience, and those for a circle.
        _list("by", "by.id", "audience"),
        _list("by_circle", "by.id", "circles", only={"audience": SELECTED}),
        IndexModel([("comments.by.id", ASCENDING)]),
        IndexModel([("fan_out.due", ASCENDING)], partialFilterExpression={"fan_out.due": {"$exists": True}}),
        # The same by author: see `fan_out_order`.
        IndexModel(
            [("by.id", ASCENDING), ("fan_out.due", ASCENDING)],
            name=PENDING,
            partialFilterExpression={"fan_out.due": {"$exists": True}},
        ),
        # The posts that news feeds may lack, by age.
        IndexModel([("created", ASCENDING)], partialFilterExpression={"fan_out.due": {"$exists": True}}),
        IndexModel([("remove_at", ASCENDING)], partialFilterExpression={"remove_at": {"$exists": True}}),
        IndexModel([("removing", ASCENDING)], partialFilterExpression={"removing": {"$exists": True}}),
    ],
    shard_key={"_id": "hashed"},
)

COMMENT_PAGES = CollectionSpec(
    "social.comment_pages",
    document=CommentPage,
    indexes=[
        IndexModel([("post", ASCENDING), ("comments.id", ASCENDING)]),
        IndexModel([("post", ASCENDING), ("comments.by.id", ASCENDING)]),
        IndexModel([("comments.by.id", ASCENDING)]),
    ],
    shard_key={"post": 1},
)

VOTES = CollectionSpec(
    "social.votes", document=VoteSlot, indexes=[IndexModel([("post", ASCENDING)])], shard_key={"post": 1}
)
