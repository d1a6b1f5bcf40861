"""Posts: the records. The collection and its reads.

A document:

    _id         ObjectId
    by          {id, name}: the author
    to          {id, name}: the member on whose wall it is
    walls       [id]: the author and, if another, the wall's owner second
    audience    PUBLIC, CIRCLES or SELECTED
    circles     [name]: with SELECTED, the circles of the author that may see it
    type        status, link, photo, checkin or poll
    detail      {text, url, photo, place, latitude, longitude, options}: by type
    posted      UTC
    created     when it was stored. Only an imported post has been posted before
    comments    [{id, by, posted, text}]: the latest comments, oldest first. Each is posted later than the one before
    comment_count   all comments, also those in `comment_pages`
    commented   when its latest comment was posted, even if that comment has been deleted; missing before the first
    spilled     how many comments have been moved to `comment_pages`
    version     incremented by every change of the stored comments, but not by a new comment
    removing    [id]: comments that are being removed from their page. No reader shows them; missing if there are none
    is_merged   True if it has no entries, because its author is merged on read. Set when it counts as delivered
    is_old      True if it was too old to be news when `is_merged` was set
    fan_out     {after, due, op} while news feeds may lack it; see `fan_out`
    deleted     when it was deleted. No reader shows it
    remove_at   when a job next removes what belongs to the deleted post
    applied     the repeatable operations that changed it

Unlike in the source, a wall and a news feed refer to posts and hold no copies of them. So a comment, a vote, a rename
or a deletion is one update, whatever the number of feeds, and no reader sees an outdated copy.

Source: MongoDB Applied Design Patterns, ch. 8.
"""

from __future__ import annotations

from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Document

# Who sees a post, besides its author and the owner of the wall.
PUBLIC, CIRCLES, SELECTED = "PUBLIC", "CIRCLES", "SELECTED"
AUDIENCES = (PUBLIC, CIRCLES, SELECTED)
# The comments of one page.
PAGE = 20
# The index of the posts that news feeds may lack, by author.
PENDING = "pending"

# Deleted posts stay for a while. No list has to read past them.
_LIVE: Document = {"deleted": None}
_NEWEST = (("posted", DESCENDING), ("_id", DESCENDING))


def _list(name: str, *paths: str, only: Document | None = None) -> IndexModel:
    """Returns the index of the posts with the same values at these paths, newest first."""
    keys = [*((path, ASCENDING) for path in paths), *_NEWEST]
    return IndexModel(keys, name=name, partialFilterExpression={**_LIVE, **(only or {})})


POSTS = CollectionSpec(
    "social.posts",
    indexes=[
        # A wall. Somebody without a token sees the public posts only.
        _list("wall", "walls", "audience"),
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

# Older comments of a post than those in its document, in pages. {_id: {post, page}, post, version, comments: [{id, by,
# posted, text}]}. `page` is the number of comments that had moved before it: 0, 20, 40, … It is valid once the post's
# `spilled` is above this number. `version` is that of the post when the page was written.
COMMENT_PAGES = CollectionSpec(
    "social.comment_pages",
    indexes=[
        IndexModel([("post", ASCENDING), ("comments.id", ASCENDING)]),
        IndexModel([("post", ASCENDING), ("comments.by.id", ASCENDING)]),
        IndexModel([("comments.by.id", ASCENDING)]),
    ],
    shard_key={"post": 1},
)

# The votes of a poll, in slots by the hash of the voter. {_id: {post, slot}, post, votes: [count by option],
# voters: [{id, option}], applied}. One update changes a vote together with its counts.
VOTES = CollectionSpec("social.votes", indexes=[IndexModel([("post", ASCENDING)])], shard_key={"post": 1})
