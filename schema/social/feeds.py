"""The lists of posts: walls, news feeds and incoming posts."""

from typing import Annotated

import strawberry

from portico.loaders.social import posts as loaders
from portico.resolvers.documents import projection_name
from portico.resolvers.social import listed_posts
from portico.resolvers.social.listed_posts import PostList
from portico.resolvers.social.months import end_of_month
from portico.schema.connections import extent_of
from portico.schema.context import Caller, Info, core
from portico.schema.fields import Source, costs, reads
from portico.schema.inputs import After, Before, First, Last, Span, described

from .posts import LISTED, PostConnection

DEFAULT_POSTS = 20
# What a page of posts costs in addition: if posts are hidden, the database searches for others in several rounds.
_ROUNDS = 200
Month = Annotated[
    str | None, described("Starts with this month in UTC, e.g. `201204`, and goes back from there. Default: all posts.")
]


@strawberry.type
class UserWall:
    @reads(
        "_id",
        extra=_ROUNDS,
        description="The posts by and to this user that you see, newest first. On your own wall, these are your own "
        "posts and those of users whom you follow.",
    )
    @staticmethod
    async def wall(
        root: strawberry.Parent[Source],
        info: Info,
        month: Month = None,
        first: First = DEFAULT_POSTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> PostConnection:
        return await _page(info, listed_posts.WALL, root["_id"], month, Span(first, after, last, before))


@strawberry.type
class FeedViewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(
        description="Your posts and those of users whom you follow, newest first.", metadata=costs(extra=_ROUNDS)
    )
    async def news_feed(
        self,
        info: Info,
        month: Month = None,
        first: First = DEFAULT_POSTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> PostConnection | None:
        return await _page(info, listed_posts.NEWS_FEED, self.caller.subject, month, Span(first, after, last, before))

    @strawberry.field(
        description="The posts that others have written on your wall, newest first, whether you follow them or not. "
        "Without posts of users with a block in either direction.",
        metadata=costs(extra=_ROUNDS),
    )
    async def incoming(
        self,
        info: Info,
        month: Month = None,
        first: First = DEFAULT_POSTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> PostConnection | None:
        return await _page(info, listed_posts.INCOMING, self.caller.subject, month, Span(first, after, last, before))


@strawberry.type
class TimelineQuery:
    @strawberry.field(
        description="All public posts that you see, newest first. A page considers up to about 1,000 posts.",
        metadata=costs(extra=_ROUNDS),
    )
    async def public_posts(
        self,
        info: Info,
        month: Month = None,
        first: First = DEFAULT_POSTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> PostConnection | None:
        return await _page(info, listed_posts.TIMELINE, "", month, Span(first, after, last, before))


async def _page(info: Info, name: str, member: str, month: str | None, span: Span) -> PostConnection:
    context = info.context
    before = None if month is None else span.beside(DEFAULT_POSTS, end_of_month, month)
    wanted = PostList(name, member, before)
    extent = extent_of(context, wanted.listing(), span, default=DEFAULT_POSTS)
    projection = LISTED.projection(core(info))
    loader = context.loader(
        ("lists of posts", extent, projection_name(projection)),
        lambda: loaders.pages(context.db, viewer=context.subject, projection=projection, **extent._asdict()),
    )
    page = (await loader.load_all((wanted,)))[wanted]
    assert page is not None
    return PostConnection(page=extent.page_of(context, page))
