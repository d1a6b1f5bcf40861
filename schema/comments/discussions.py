"""Discussions, and the comments in them. The writes are in `comment_mutations`."""

from __future__ import annotations

import asyncio
from datetime import datetime
from enum import Enum
from typing import Annotated, cast

import strawberry

from portico.loaders.comments import comments as comment_loaders
from portico.loaders.comments import discussions as loaders
from portico.resolvers import attachments
from portico.resolvers.comments import comments, discussions
from portico.resolvers.comments import edits as comment_edits
from portico.resolvers.documents import Document, DocumentId, document_id
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.paging import Listing
from portico.schema.authors import Author
from portico.schema.connections import Connection, Paged
from portico.schema.context import Context, Info, core
from portico.schema.fields import Source, reads, related, stored
from portico.schema.inputs import After, First, described
from portico.schema.markdown import comment_html
from portico.schema.nodes import KINDS, Kind, KindDocument, Node, is_visible, load, node_id, projection_of, require

DEFAULT_COMMENTS = 20
# Characters. Longer texts are rendered beside the event loop.
_SHORT = 2_000

DISCUSSION = Kind(
    name="Discussion",
    path="_id",
    parse=document_id,
    read=loaders.by_id,
    types=("Discussion",),
    type_name=lambda _document: "Discussion",
    discriminator=("subject",),
    within=lambda discussion: (discussion["subject"]["kind"], discussion["subject"]["key"]),
)
COMMENT = Kind(
    name="Comment",
    path=comments.REF,
    parse=comments.parse_comment_ref,
    read=comment_loaders.by_ref,
    types=("Comment",),
    type_name=lambda _document: "Comment",
    discriminator=(comments.REF, "discussion"),
    within=lambda comment: (DISCUSSION.name, str(comment["discussion"])),
    find_gone=comment_edits.find_deleted,
)
_PAGED = Paged(COMMENT.name, comment_loaders.pages)


@strawberry.enum(
    description="How a discussion's comments are kept. Chosen when it is opened; every query works on each."
)
class CommentStorage(Enum):
    DOCUMENTS = strawberry.enum_value(
        discussions.DOCUMENTS, description="One document a comment: any number of them, any order cheaply."
    )
    EMBEDDED = strawberry.enum_value(
        discussions.EMBEDDED,
        description="All inside one document: the fastest to show, up to the document size limit.",
    )
    PAGES = strawberry.enum_value(
        discussions.PAGES, description="About a hundred to a document: nearly as fast, with no limit."
    )


@strawberry.enum(description="The order of comments.")
class CommentOrder(Enum):
    THREADED = strawberry.enum_value(comments.THREADED, description="Each comment before its replies, replies by time.")
    CHRONOLOGICAL = strawberry.enum_value(comments.CHRONOLOGICAL, description="By time alone.")


Order = Annotated[CommentOrder, described("The order of the list.")]
MaxDepth = Annotated[int | None, described("Leaves out deeper replies; `replyCount` tells of them.")]


@strawberry.type(description="What somebody wrote in a discussion.")
class Comment(Node):
    id: strawberry.ID = node_id(COMMENT.name, comments.REF)
    discussion: Discussion = related(DISCUSSION.name, "discussion", description="The discussion that it belongs to.")
    slug: str = stored(
        description="The slugs from the first comment of the thread down to this one, e.g. `k3vqa52mzb/xw7d2oqnfe`."
    )
    depth: int = stored(description="0 for one that replies to nothing.")
    author: Author = stored(description="Who wrote it.")
    posted: datetime = stored(description="When it was posted; later than its parent.")
    edited: datetime | None = stored(description="When its text was last changed; null where it never was.")
    text: str = stored(
        default="", description="CommonMark. Empty once deleted; a deleted comment stays while it has replies."
    )
    deleted: bool = stored(description="Whether it stays only for the sake of its replies.")
    parent: Comment | None = related(
        COMMENT.name, "parent", description="The comment that it replies to; null for the first of a thread."
    )
    reply_count: int = stored("replies", default=0, description="Direct replies.")

    @reads("text", description="The text rendered, and safe to put into a page.")
    @staticmethod
    async def html(root: strawberry.Parent[Source]) -> str:
        text = root["text"]
        return comment_html(text) if len(text) <= _SHORT else await asyncio.to_thread(comment_html, text)

    @reads(comments.REF, description="Direct replies, by time.")
    @staticmethod
    async def replies(
        root: strawberry.Parent[Source], info: Info, first: First = DEFAULT_COMMENTS, after: After = None
    ) -> Connection[Comment]:
        return await _comment_page(info, comments.replies_of(root[comments.REF]), first, after)

    @reads(comments.REF, "key", description="Every comment below this one, in threaded order.")
    @staticmethod
    async def thread(
        root: strawberry.Parent[Source], info: Info, first: First = DEFAULT_COMMENTS, after: After = None
    ) -> Connection[Comment]:
        return await _comment_page(info, comments.thread_of(root[comments.REF], root["key"]), first, after)


async def _comment_page(info: Info, listing: Listing, first: int | None, after: str | None) -> Connection[Comment]:
    return Connection(page=await _PAGED.page(info, listing, first=first, default=DEFAULT_COMMENTS, after=after))


@strawberry.type(description="The comments on a content node, a product or a post.")
class Discussion(Node):
    id: strawberry.ID = node_id(DISCUSSION.name, "_id")
    storage: CommentStorage = stored(description="How the comments are kept; it never changes.")

    @reads("subject", description="What is discussed. A discussion of what the caller may not see is not seen, either.")
    @staticmethod
    async def subject(root: strawberry.Parent[Source], info: Info) -> Node:
        kind = KINDS[root["subject"]["kind"]]
        return cast("Node", KindDocument(kind, await require(core(info), kind, kind.parse(root["subject"]["key"]))))

    @reads(
        "_id",
        "storage",
        "count",
        description="How many comments are listed, with those that stay only for their replies.",
    )
    @staticmethod
    async def comment_count(root: strawberry.Parent[Source], info: Info) -> int:
        if root["storage"] != discussions.EMBEDDED:
            return cast("int", root["count"])
        counts = info.context.loader("comment counts", lambda: loaders.counts(info.context.reading))
        return await counts.load(root["_id"]) or 0

    @reads("_id", "storage", description="All of them, a page at a time.")
    @staticmethod
    async def comments(
        root: strawberry.Parent[Source],
        info: Info,
        order: Order = CommentOrder.THREADED,
        max_depth: MaxDepth = None,
        first: First = DEFAULT_COMMENTS,
        after: After = None,
    ) -> Connection[Comment]:
        if max_depth is not None and max_depth < 0:
            raise InvalidInput(f"`maxDepth` is {max_depth}: it must not be below 0.", "max_depth")
        listing = comments.listing_of(root["storage"], root["_id"], order=order.name, max_depth=max_depth)
        return await _comment_page(info, listing, first, after)

    @reads("_id", "storage", description="A direct link.")
    @staticmethod
    async def comment(
        root: strawberry.Parent[Source], info: Info, slug: Annotated[str, described("The comment's slug.")]
    ) -> Comment | None:
        projection = projection_of(core(info), COMMENT)
        name = ("Comment by slug", None if projection is None else tuple(projection))
        links = info.context.loader(name, lambda: comment_loaders.by_link(info.context.reading, projection))
        return cast("Comment | None", await links.load((root["storage"], root["_id"], slug)))


def discussed(kind: Kind) -> type | None:
    """The fields that comments add to a kind; None for one that cannot be discussed."""
    if not attachments.is_host(kind.name):
        return None

    @strawberry.type
    class Discussed:
        @reads(
            *dict.fromkeys((kind.path, "_id")),
            description="What people say about it; null where nobody has opened a discussion.",
        )
        @staticmethod
        async def discussion(root: strawberry.Parent[Source], info: Info) -> Discussion | None:
            # What is discussed is at hand, so that the discussion needs no read of it to be visible.
            if not await is_visible(info.context, kind, root):
                return None
            keys = discussions.discussion_ids(kind.name, str(root[kind.path]), root["_id"])
            # Both are asked for before the first is waited for, so they come by one command.
            found = [await later for later in [load(core(info), DISCUSSION, key) for key in keys]]
            return cast("Discussion | None", found[-1] or found[0])

    return Discussed


async def require_discussion(context: Context, key: DocumentId) -> Document:
    """A discussion that the caller may see. Raises NotFound."""
    found = (await discussions.find_by_ids(context.db, [key], {"storage": 1, "subject": 1})).get(key)
    if found is None or not await is_visible(context, DISCUSSION, found):
        raise NotFound(DISCUSSION.name, str(key))
    return found
