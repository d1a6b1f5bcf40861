"""What members are notified of: followers, comments on their posts, and votes in their polls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from bson import ObjectId

from portico.resolvers.attachments import Hosts
from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Database, Document
from portico.resolvers.notifying import NotificationSource

from . import members, post_events, relations
from .posts import COMMENT_PAGES, POSTS, VOTES
from .relations import RELATIONS

FOLLOWED, COMMENTED, VOTED = "FOLLOWED", "POST_COMMENTED", "POLL_VOTED"
_SINCE = "updateDescription.updatedFields.since"
_LIVE: Document = {"deleted": {"$exists": False}}


class Follower(NamedTuple):
    """Who follows whom, and since when."""

    member: str
    other: str
    since: datetime


def _followed(change: Document) -> Iterator[Event]:
    fields = change.get("fullDocument") or (change.get("updateDescription") or {}).get("updatedFields") or {}
    pair = change["documentKey"]["_id"]
    if isinstance(fields.get("since"), datetime):
        yield Event("followed", Follower(pair["of"], pair["to"], fields["since"]))


def _followers_in(relation: Document, since: datetime) -> Iterator[Follower]:
    if "since" in relation and relation["since"] >= since:
        yield Follower(relation["_id"]["of"], relation["_id"]["to"], relation["since"])


async def _notices_of_followers(
    db: Database, _hosts: Hosts, followers: Sequence[Follower]
) -> Iterable[NotificationSource.Notice]:
    """Returns the notices of those who follow still. Two commands."""
    pairs = [(one.member, one.other) for one in followers]
    found = await relations.find_pairs(db, pairs, {"of": 1, "to": 1, "since": 1})
    still = {(one["of"], one["to"]) for one in found if "since" in one}
    names = await _names(db, {one.member for one in followers})
    return [
        NotificationSource.Notice(
            reason=FOLLOWED,
            to=one.other,
            about=("User", one.member),
            by={"id": one.member, "name": names[one.member]},
            at=one.since,
        )
        for one in followers
        if (one.member, one.other) in still and one.member in names
    ]


async def _names(db: Database, subjects: set[str]) -> dict[str, str]:
    found = await members.find_by_ids(db, list(subjects), {"name": 1})
    return {subject: member["name"] for subject, member in found.items()}


async def _notices_of_comments(
    db: Database, _hosts: Hosts, commented: Sequence[post_events.Commented]
) -> Iterable[NotificationSource.Notice]:
    """Returns the notices of comments that are not deleted. One command, or two."""
    times: dict[ObjectId, set[datetime]] = {}
    for one in commented:
        times.setdefault(one.post, set()).add(one.at)
    shown = {"by": 1, "comments": 1, "removing": 1}
    query = {"_id": {"$in": list(times)}, **_LIVE}
    posts = {post["_id"]: post for post in await db[POSTS.name].find(query, shown).to_list()}
    comments = {post: list(_at(times[post], document["comments"])) for post, document in posts.items()}
    # The others have been deleted, or have moved to a page.
    moved = [post for post, found in comments.items() if len(found) < len(times[post])]
    if moved:
        at = [time for post in moved for time in times[post]]
        pages = db[COMMENT_PAGES.name].find({"post": {"$in": moved}, "comments.posted": {"$in": at}})
        async for page in pages:
            comments[page["post"]] += _at(times[page["post"]], page["comments"])
    return [
        NotificationSource.Notice(
            reason=COMMENTED,
            to=posts[post]["by"]["id"],
            about=("Post", str(post)),
            by=comment["by"],
            at=comment["posted"],
            key=str(comment["id"]),
        )
        for post, found in comments.items()
        for comment in found
        if comment["id"] not in posts[post].get("removing", ())
    ]


def _at(times: set[datetime], comments: Sequence[Document]) -> Iterator[Document]:
    return (comment for comment in comments if comment["posted"] in times)


def _comments_in(document: Document, since: datetime) -> Iterator[post_events.Commented]:
    """Yields the comments of a post or of a page."""
    post: ObjectId = document["post"] if "post" in document else document["_id"]
    yield from (post_events.Commented(post, one["posted"]) for one in document["comments"] if one["posted"] >= since)


async def _notices_of_votes(
    db: Database, _hosts: Hosts, votes: Sequence[post_events.Voted]
) -> Iterable[NotificationSource.Notice]:
    """Returns the notices of first votes. A member who changes their vote is in no other one. Two commands."""
    query = {"_id": {"$in": list({one.post for one in votes})}, **_LIVE}
    posts: dict[Any, Document] = {post["_id"]: post for post in await db[POSTS.name].find(query, {"by": 1}).to_list()}
    names = await _names(db, {one.voter for one in votes})
    return [
        NotificationSource.Notice(
            reason=VOTED,
            to=posts[one.post]["by"]["id"],
            about=("Post", str(one.post)),
            by={"id": one.voter, "name": names[one.voter]},
            at=one.at,
            key=f"{one.post}:{one.voter}",
        )
        for one in votes
        if one.post in posts and one.voter in names
    ]


def _votes_in(slot: Document, since: datetime) -> Iterator[post_events.Voted]:
    for voter in slot["voters"]:
        if "at" in voter and voter["at"] >= since:
            yield post_events.Voted(slot["_id"]["post"], voter["id"], voter["at"])


async def hidden_members(db: Database, viewer: str, others: Collection[str]) -> Collection[str]:
    """Returns those of the members with whom the viewer has a block in either direction. One command."""
    return await relations.find_blocks_among(db, viewer, others)


SOURCES: Sequence[NotificationSource] = (
    NotificationSource(
        name="followers",
        reasons={FOLLOWED: "Somebody has begun to follow the viewer."},
        changes=ChangeSource(
            frozenset({RELATIONS.name}),
            {
                "$or": [
                    {"operationType": "insert", "fullDocument.since": {"$exists": True}},
                    {_SINCE: {"$exists": True}},
                ]
            },
            ("documentKey", "fullDocument.since", _SINCE),
            _followed,
        ),
        notices=_notices_of_followers,
        backlogs=(NotificationSource.Backlog(RELATIONS, ("since",), _followers_in),),
    ),
    NotificationSource(
        name="post comments",
        reasons={COMMENTED: "Somebody has commented on the viewer's post."},
        changes=post_events.COMMENTED,
        notices=_notices_of_comments,
        backlogs=(
            NotificationSource.Backlog(POSTS, ("comments.posted",), _comments_in),
            NotificationSource.Backlog(COMMENT_PAGES, ("post", "comments.posted"), _comments_in),
        ),
    ),
    NotificationSource(
        name="votes",
        reasons={VOTED: "Somebody has voted in the viewer's poll."},
        changes=post_events.VOTED,
        notices=_notices_of_votes,
        backlogs=(NotificationSource.Backlog(VOTES, ("voters.id", "voters.at"), _votes_in),),
    ),
)
