"""Discussions and their comments. The mutations are in `posting`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from enum import Enum
from typing import Annotated

import strawberry

from portico.loaders.comments import comments as comment_loaders
from portico.loaders.comments import discussions as loaders
from portico.resolvers.attachments import Hosts
from portico.resolvers.comments import comments, discussions
from portico.resolvers.comments import edits as comment_edits
from portico.resolvers.comments.comments import PublicComment
from portico.resolvers.comments.discussions import DiscussionDocument
from portico.resolvers.comments.rules import LONGEST
from portico.resolvers.documents import DocumentId, projection_name
from portico.resolvers.errors import DomainError, InvalidInput, NotFound
from portico.resolvers.lru import Lru
from portico.resolvers.paging import Listing
from portico.resolvers.together import Begun, both
from portico.resolvers.writes.settler import Answering
from portico.schema.authors import Author
from portico.schema.connections import Connection, Paged
from portico.schema.context import Context, Info, core
from portico.schema.fields import Source, as_type, reads, related, stored
from portico.schema.inputs import After, Before, First, Last, Span, described
from portico.schema.kinds import Kind, KindDocument, Node, node_id
from portico.schema.markdown import comment_html
from portico.schema.nodes import is_visible, load, projection_of, require
from portico.schema.rendering import rendered
from portico.schema.roles import Role

DEFAULT_COMMENTS = 20
# What the pages of a discussion cost in addition, because MongoDB reads the whole document of an embedded discussion
# for each page of different arguments. Pages below comments share the reads of equal arguments.
_COMMENTS, _BELOW = 750, 100

DISCUSSION = Kind.of(
    "Discussion",
    discussions.DISCUSSIONS,
    read=loaders.by_id,
    reads=("subject",),
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
COMMENT_PAGES = Paged(COMMENT.name, comment_loaders.pages)


@strawberry.enum(description="How the comments of a discussion are stored. You choose it when you open the discussion.")
class CommentStorage(Enum):
    DOCUMENTS = strawberry.enum_value(
        discussions.DOCUMENTS,
        description="One document for each comment: no limit on their number, and all orders are fast.",
    )
    EMBEDDED = strawberry.enum_value(
        discussions.EMBEDDED,
        description="All comments in one document: fast for few comments, up to the document size limit.",
    )
    PAGES = strawberry.enum_value(
        discussions.PAGES, description="Documents of up to a hundred comments: fast in thread order, without a limit."
    )


@strawberry.enum(description="The order of comments.")
class CommentOrder(Enum):
    THREADED = strawberry.enum_value(
        comments.THREADED, description="Thread order: each comment before its replies, and replies by time."
    )
    CHRONOLOGICAL = strawberry.enum_value(comments.CHRONOLOGICAL, description="By time, the oldest first.")
    NEWEST = strawberry.enum_value(comments.NEWEST, description="By time, the newest first.")


Order = Annotated[CommentOrder, described("The order of the list.")]
MaxDepth = Annotated[int | None, described("Omits deeper replies; `replyCount` still counts them.")]


@strawberry.type(description="A comment in a discussion.")
class Comment(Node):
    id: strawberry.ID = node_id(COMMENT.name, comments.REF)
    discussion: "Discussion" = related(
        DISCUSSION.name, "discussion", description="The discussion that contains the comment."
    )
    slug: str = stored(
        description="The slug parts from the first comment of the thread to this one, e.g. `k3vqa52mzb/xw7d2oqnfe`."
    )
    depth: int = stored(description="The number of comments above it; 0 for the first of a thread.")
    author: Author = stored(description="Who wrote it.")
    posted: datetime = stored(description="When it was posted; later than the parent's time.")
    edited: datetime | None = stored(description="When its text was last changed; null if never.")
    text: str = stored(
        default="",
        text=LONGEST,
        description="CommonMark. Empty if the comment is deleted; a deleted comment stays while it has replies.",
    )
    deleted: bool = stored(description="Whether it was deleted, and only stays because of its replies.")
    parent: "Comment | None" = related(
        COMMENT.name, "parent", description="The comment that it replies to; null for the first of a thread."
    )
    reply_count: int = stored("replies", default=0, description="The number of direct replies.")

    @reads(
        "author.id",
        "deleted",
        description="Whether you may edit and delete it: it is not deleted, and you are its author or an EDITOR.",
    )
    @staticmethod
    def viewer_can_edit(root: strawberry.Parent[PublicComment], info: Info) -> bool:
        return _may_change(root, info)

    @reads("author.id", "deleted", description="The same as `viewerCanEdit`.")
    @staticmethod
    def viewer_can_delete(root: strawberry.Parent[PublicComment], info: Info) -> bool:
        return _may_change(root, info)

    @reads("text", text=LONGEST, description="The rendered text. It is safe to insert into a page.")
    @staticmethod
    async def html(root: strawberry.Parent[PublicComment], info: Info) -> str:
        return await rendered(info.context, comment_html, root["text"])

    @reads(comments.REF, extra=_BELOW, description="The direct replies, by time.")
    @staticmethod
    async def replies(
        root: strawberry.Parent[PublicComment],
        info: Info,
        first: First = DEFAULT_COMMENTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> "Connection[Comment]":
        return await _comment_page(info, comments.replies_of(root[comments.REF]), Span(first, after, last, before))

    @reads(comments.REF, "key", extra=_BELOW, description="All comments below this one, in thread order.")
    @staticmethod
    async def thread(
        root: strawberry.Parent[PublicComment],
        info: Info,
        first: First = DEFAULT_COMMENTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> "Connection[Comment]":
        listing = comments.thread_of(root[comments.REF], root["key"])
        return await _comment_page(info, listing, Span(first, after, last, before))


def _may_change(comment: PublicComment, info: Info) -> bool:
    own = comment["author"]["id"] == info.context.subject
    return not comment.get("deleted") and (own or info.context.has_role(Role.EDITOR))


def _require_depth(max_depth: int | None) -> None:
    if max_depth is not None and max_depth < 0:
        text = f"`maxDepth` must be 0 or more; got {max_depth}."
        raise InvalidInput(text, "max_depth", code=InvalidInput.OUT_OF_RANGE, least=0)


async def _comment_page(info: Info, listing: Listing, span: Span) -> Connection[Comment]:
    return Connection(page=await COMMENT_PAGES.spanned(info, listing, span, default=DEFAULT_COMMENTS))


@strawberry.type(description="The comments on an object, e.g. a content node or a product.")
class Discussion(Node):
    id: strawberry.ID = node_id(DISCUSSION.name, "_id")
    storage: CommentStorage = stored(description="How the comments are stored. It never changes.")

    @reads(
        "subject",
        description="The object that is discussed. If you cannot see it, you cannot see the discussion either.",
    )
    @staticmethod
    async def subject(root: strawberry.Parent[DiscussionDocument], info: Info) -> Node:
        kind: Kind = info.context.served.kinds[root["subject"]["kind"]]
        return as_type(Node, KindDocument(kind, await require(core(info), kind, kind.parse(root["subject"]["key"]))))

    @reads(
        "_id",
        "storage",
        "count",
        "under_way",
        description="The number of listed comments, including deleted ones that stay because of their replies.",
    )
    @staticmethod
    async def comment_count(root: strawberry.Parent[DiscussionDocument], info: Info) -> int:
        context, storage = info.context, root["storage"]
        if storage != discussions.EMBEDDED and not root["under_way"]:
            return root["count"]
        db = context.reading if storage == discussions.EMBEDDED else context.db
        counts = context.loader(("comment counts", storage), lambda: loaders.counts(db, storage))
        return await counts.load(root["_id"]) or 0

    @reads("_id", "storage", extra=_COMMENTS, description="The comments, in pages.")
    @staticmethod
    async def comments(
        root: strawberry.Parent[DiscussionDocument],
        info: Info,
        order: Order = CommentOrder.THREADED,
        max_depth: MaxDepth = None,
        first: First = DEFAULT_COMMENTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[Comment]:
        span = Span(first, after, last, before)
        span.beside(DEFAULT_COMMENTS, _require_depth, max_depth)
        listing = comments.listing_of(root["storage"], root["_id"], order=order.name, max_depth=max_depth)
        return await _comment_page(info, listing, span)

    @reads("_id", "storage", description="The comment with a slug, for direct links; null if there is none.")
    @staticmethod
    async def comment(
        root: strawberry.Parent[DiscussionDocument], info: Info, slug: Annotated[str, described("The comment's slug.")]
    ) -> Comment | None:
        projection = projection_of(core(info), COMMENT)
        name = ("Comment by slug", projection_name(projection))
        links = info.context.loader(name, lambda: comment_loaders.by_link(info.context.reading, projection))
        return as_type(Comment, await links.load((root["storage"], root["_id"], slug)))


def discussed(kind: Kind, hosts: Hosts) -> type | None:
    """Returns the fields that comments add to a kind, or None if the kind cannot be discussed."""
    if kind.name not in hosts:
        return None

    @strawberry.type
    class Discussed:
        @reads(
            *dict.fromkeys((kind.path, "_id")),
            description="The discussion about it; null if nobody has opened one.",
        )
        @staticmethod
        async def discussion(root: strawberry.Parent[Source], info: Info) -> Discussion | None:
            # The subject is loaded already, so that the visibility of the discussion needs no read.
            if not await is_visible(info.context, kind, root):
                return None
            keys = discussions.discussion_ids(kind.name, str(root[kind.path]), root["_id"])
            # Requests both before it awaits the first, so that one command reads both.
            found = [await later for later in [load(core(info), DISCUSSION, key) for key in keys]]
            return as_type(Discussion, found[-1] or found[0])

    return Discussed


class KnownDiscussions(Lru[DocumentId, DiscussionDocument]):
    """The discussions that this process has read last, for what they never change: the subject and the storage."""


async def require_discussion(context: Context, key: DocumentId) -> DiscussionDocument:
    """Returns a discussion that the caller can see. Raises NotFound.

    The subject of a discussion that the process knows is read at the same time. What is found decides.
    """
    known = context.resources.of(KnownDiscussions)
    reading = discussions.find_by_ids(context.db, [key], {"storage": 1, "subject": 1})
    found, _ = await both(reading, _look_at_subject(context, known.get(key)))
    discussion = found.get(key)
    if discussion is None or not await is_visible(context, DISCUSSION, discussion):
        raise NotFound(DISCUSSION.name, str(key))
    known.put(key, discussion)
    return discussion


@asynccontextmanager
async def commenting(
    context: Context, key: DocumentId, *, is_reply: bool
) -> AsyncIterator[tuple[DiscussionDocument, Answering]]:
    """Yields a discussion, and how the block is answered that comments on it. Raises NotFound if the caller sees none.

    If the process knows the discussion, the subject is read while the block prepares the comment. The block awaits the
    result before it decides (`Answering.confirm`). The discussion itself need not be read: what it never changes is
    known, and the first write of the block requires that it is open. A reply reads its parent, whose absence a caller
    must not learn who does not see the discussion.
    """
    known, answering = context.resources.of(KnownDiscussions).get(key), context.answering
    if known is None or is_reply or known["storage"] == discussions.EMBEDDED:
        yield await require_discussion(context, key), answering
        return
    looking = Begun(_require_subject(context, known))

    async def confirm() -> None:
        await looking.result()
        await answering.confirmed()

    try:
        yield known, Answering(answering.settler, confirm, is_repeated=answering.is_repeated)
    except DomainError:
        # A caller who does not see the discussion gets the same error for every input.
        await looking.result()
        raise
    finally:
        await looking.ended()


async def _require_subject(context: Context, known: DiscussionDocument) -> None:
    if not await is_visible(context, DISCUSSION, known):
        raise NotFound(DISCUSSION.name, str(known["_id"]))


async def _look_at_subject(context: Context, known: DiscussionDocument | None) -> None:
    """Reads the subject, if the discussion is known. The context remembers it if the caller may see it."""
    if known is not None:
        await is_visible(context, DISCUSSION, known)
