"""Posts: the records. The collection and its reads.

A document:

    _id         ObjectId
    by          {id, name}: the author
    to          {id, name}: the member on whose wall it is
    walls       [id]: the author and, if another, the wall's owner
    audience    PUBLIC, CIRCLES or SELECTED
    circles     [name]: with SELECTED, the circles of the author that may see it
    type        status, link, photo, checkin or poll
    detail      {text, url, photo, place, latitude, longitude, options}: by type
    posted      UTC
    comments    [{id, by, posted, text}]: the latest comments, oldest first
    comment_count   all comments, also those in `comment_pages`
    spilled     how many comments have been moved to `comment_pages`
    version     incremented by every change of comments
    removing    [id]: comments that are being removed from their page. No reader shows them
    fan_out     {after, due, lease, op} while news feeds may lack it; see `fan_out`
    deleted     when it was deleted. No reader shows it
    applied     the repeatable operations that changed it

Unlike in the source, a wall and a news feed refer to posts and hold no copies of them. So a comment, a vote, a rename
or a deletion is one update, whatever the number of feeds, and no reader sees an outdated copy. The page of a feed still
takes one command.

Source: MongoDB Applied Design Patterns, ch. 8.
"""

from __future__ import annotations

from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec

POSTS = CollectionSpec(
    "social.posts",
    indexes=[
        IndexModel([("walls", ASCENDING), ("posted", DESCENDING), ("_id", DESCENDING)]),
        # The posts directed to a member, and the posts of an author whose feeds are merged on read.
        IndexModel([("to.id", ASCENDING), ("posted", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("by.id", ASCENDING), ("posted", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("comments.by.id", ASCENDING)]),
        IndexModel([("fan_out.due", ASCENDING)], partialFilterExpression={"fan_out": {"$exists": True}}),
        IndexModel([("deleted", ASCENDING)], partialFilterExpression={"deleted": {"$exists": True}}),
        IndexModel([("removing", ASCENDING)], partialFilterExpression={"removing": {"$exists": True}}),
    ],
    shard_key={"_id": "hashed"},
)

# Older comments of a post than those in its document: pages of 20 comments, by their position among all that moved.
# {_id: {post, page}, post, version, comments: [{id, by, posted, text}]}. A page whose number is not below the post's
# `spilled` is not valid yet.
COMMENT_PAGES = CollectionSpec(
    "social.comment_pages",
    indexes=[
        IndexModel([("post", ASCENDING), ("comments.by.id", ASCENDING)]),
        IndexModel([("comments.by.id", ASCENDING)]),
    ],
    shard_key={"post": 1},
)

# The votes of a poll, in slots by the hash of the voter. {_id: {post, slot}, post, votes: [count by option],
# voters: [{id, option}], applied}. One update changes a vote together with its counts.
VOTES = CollectionSpec("social.votes", indexes=[IndexModel([("post", ASCENDING)])], shard_key={"post": 1})
