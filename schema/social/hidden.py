"""What stands on a member's wall and under a member's posts, and the member does not see because of a block.

Everybody else sees it, so the member can list and delete it.
"""

from datetime import datetime

import strawberry

from portico.loaders.social import posts as loaders
from portico.resolvers.errors import NotFound
from portico.resolvers.social import hidden_comments as hidden_comment_reads
from portico.resolvers.social import hidden_posts
from portico.schema.authors import Author
from portico.schema.connections import Connection, extent_of
from portico.schema.content.photos import Photo
from portico.schema.content.types import CONTENT
from portico.schema.context import Caller, Info
from portico.schema.fields import Source, computed, reads, related, stored
from portico.schema.inputs import After, Before, First, Last, Span
from portico.schema.kinds import Kind
from portico.schema.parts import part_id

from .posts import COMMENT, MAX_OPTIONS, POST

DEFAULT_HIDDEN = 20
_BY = "Who wrote it; null if they have blocked you."


@strawberry.type(
    description="A post on your wall that you do not see elsewhere, because you have a block with its author in either "
    "direction. Others see it."
)
class HiddenPost:
    id: strawberry.ID = part_id("HiddenPost", lambda post: post["_id"], "_id")
    post_id: strawberry.ID = computed(
        lambda post: Kind.encode_id(POST.name, post["_id"]), "_id", description="The id of the post, for `deletePost`."
    )
    by: Author | None = stored(description=_BY)
    posted: datetime = stored(description="When it was posted.")
    text: str = stored("detail.text", default="", description="The text, as written; may be empty.")
    url: str | None = stored("detail.url", description="The address in a post with a link.")
    place: str | None = stored("detail.place", description="The place of a post from a place.")
    options: list[str] | None = stored(
        "detail.options", length=MAX_OPTIONS, description="The texts of the options of a poll."
    )
    photo: Photo | None = related(
        CONTENT.name, "detail.photo", description="The photo of a post with a photo, if you may see it."
    )


@strawberry.type(
    description="A comment on your post that you do not see elsewhere, because you have a block with its author in "
    "either direction. Others see it."
)
class HiddenComment:
    id: strawberry.ID = part_id("HiddenComment", lambda comment: comment["id"], "id")
    comment_id: strawberry.ID = computed(
        lambda comment: Kind.encode_id(COMMENT, comment["id"]),
        "id",
        description="The id of the comment, for `deletePostComment`.",
    )
    by: Author | None = stored(description=_BY)
    posted: datetime = stored(description="When it was written.")
    text: str = stored(description="The text, as written.")


@strawberry.type
class HiddenOnWall:
    caller: strawberry.Private[Caller]

    @strawberry.field(
        description="The posts by others on your wall that you do not see because of a block, newest first. Others see "
        "them. You can delete them. A page can have fewer posts than requested although more follow."
    )
    async def hidden_posts(
        self,
        info: Info,
        first: First = DEFAULT_HIDDEN,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[HiddenPost] | None:
        context, owner = info.context, self.caller.subject
        listing, span = hidden_posts.hidden_posts_of(owner), Span(first, after, last, before)
        extent = extent_of(context, listing, span, default=DEFAULT_HIDDEN)
        loader = context.loader(("hidden posts", extent), lambda: loaders.hidden_pages(context.db, **extent._asdict()))
        page = await loader.load(owner)
        assert page is not None
        return Connection(page=extent.page_of(context, page))


@strawberry.type
class HiddenUnderPost:
    @reads(
        "_id",
        "by.id",
        description="The comments that you do not see because of a block, oldest first; none unless you are the "
        "author of the post. Others see them. You can delete them. A page can have fewer comments than requested "
        "although more follow.",
    )
    @staticmethod
    async def hidden_comments(
        root: strawberry.Parent[Source],
        info: Info,
        first: First = DEFAULT_HIDDEN,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[HiddenComment]:
        context, author, post = info.context, root["by"]["id"], root["_id"]
        if author != context.subject:
            return Connection(page=hidden_comment_reads.no_hidden(context.db, post))
        listing, span = hidden_comment_reads.hidden_comments_of(post), Span(first, after, last, before)
        extent = extent_of(context, listing, span, default=DEFAULT_HIDDEN)
        page = await context.loader(
            ("hidden comments", extent),
            lambda: loaders.hidden_comment_pages(context.db, author=author, **extent._asdict()),
        ).load(post)
        if page is None:
            raise NotFound(POST.name, str(post))
        return Connection(page=extent.page_of(context, page))
