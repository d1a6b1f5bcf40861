"""Posts and their comments. The mutations are in `posting`, the lists of posts in `feeds`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import strawberry

from portico.loaders.social import posts as loaders
from portico.resolvers.documents import Document, DocumentId
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.paging import Page
from portico.resolvers.social import comment_reads, visibility
from portico.resolvers.social.months import month_of
from portico.resolvers.social.post_rules import LONGEST_COMMENT, LONGEST_POST
from portico.resolvers.social.posts import CIRCLES, POSTS, PUBLIC, SELECTED, ShownPost
from portico.resolvers.social.walks import COMMENTS_READ
from portico.schema.authors import Author
from portico.schema.connections import Connection, Edge, Paged, extent_of
from portico.schema.content.photos import Photo
from portico.schema.content.types import CONTENT
from portico.schema.context import Context, Info
from portico.schema.fields import Source, as_type, computed, reads, related, stored
from portico.schema.inputs import After, Before, First, Last, Span, described
from portico.schema.kinds import Kind, Node, node_id, split_id
from portico.schema.parts import part_id
from portico.schema.roles import Role

DEFAULT_COMMENTS = 20
MAX_LATEST, MAX_OPTIONS, MAX_CIRCLES = 10, 10, 200
_TYPES = {
    "status": "StatusPost",
    "link": "LinkPost",
    "photo": "PhotoPost",
    "checkin": "CheckinPost",
    "poll": "PollPost",
}
COMMENT = "PostComment"


async def _shown_to(context: Context, posts: Sequence[Source]) -> Sequence[Source | Exception | None]:
    return await visibility.show_posts(context.db, context.subject, posts)


POST = Kind(
    name="Post",
    path="_id",
    parse=Kind.document_id,
    read=loaders.by_id,
    collection=POSTS.name,
    types=tuple(_TYPES.values()),
    type_name=lambda post: _TYPES[post["type"]],
    discriminator=("type", *visibility.DECIDING),
    shown_to=_shown_to,
)


def comment_key(global_id: str) -> DocumentId:
    """Returns the stored id of a comment from its `id`. Raises NotFound for a text that is not such an id."""
    try:
        name, text = split_id(global_id)
        key = Kind.document_id(text)
    except ValueError:
        raise NotFound(COMMENT, message="The id is not that of a comment on a post.") from None
    if name != COMMENT or Kind.encode_id(COMMENT, key) != global_id:
        raise NotFound(COMMENT, message="The id is not that of a comment on a post.")
    return key


@strawberry.enum(description="Who sees a post, besides its author and the user whose wall it is on.")
class Audience(Enum):
    PUBLIC = strawberry.enum_value(PUBLIC, description="Everybody.")
    CIRCLES = strawberry.enum_value(CIRCLES, description="Everybody in any circle of the author's.")
    SELECTED = strawberry.enum_value(SELECTED, description="The members of the circles that the author named.")


@strawberry.type(description="A comment on a post.")
class PostComment:
    id: strawberry.ID = computed(
        lambda comment: Kind.encode_id(COMMENT, comment["id"]),
        "id",
        description="Unique among all objects. `deletePostComment` takes it.",
    )
    by: Author = stored(description="Who wrote it.")
    posted: datetime = stored(description="When it was written.")
    text: str = stored(text=LONGEST_COMMENT, description="The text, as written.")

    @reads(
        "by.id",
        "post_by",
        description="Whether you may delete it: whether you are its author, the author of the post or an EDITOR.",
    )
    @staticmethod
    def viewer_can_delete(root: strawberry.Parent[Mapping[str, Any]], info: Info) -> bool:
        return info.context.has_role(Role.EDITOR) or info.context.subject in (root["by"]["id"], root["post_by"])


def below(post: Mapping[str, Any], comments: Sequence[Mapping[str, Any]]) -> list[Document]:
    """Returns the comments of a post with the author of the post, who may delete them."""
    return [{**comment, "post_by": post["by"]["id"]} for comment in comments]


@strawberry.interface(
    description="A post on a wall. You do not see posts of authors with whom you have a block in either direction, nor "
    "comments of such members."
)
class Post(Node):
    id: strawberry.ID = node_id("Post", "_id")
    by: Author = stored(description="Who wrote it.")
    to: Author | None = stored(
        description="The user on whose wall it is: the author, unless another was named. Null if they have blocked you."
    )
    posted: datetime = stored(description="When it was posted.")
    text: str = stored(
        "detail.text",
        default="",
        text=LONGEST_POST,
        description="The text, as written; the question of a poll. Of a post with a link, a photo or a place it may be "
        "empty.",
    )
    audience: Audience = stored(description="Who sees it.")
    circles: list[str] | None = stored(
        length=MAX_CIRCLES, description="The circles that the author named; null for everybody but the author."
    )
    comment_count: int = computed(
        lambda post: post["comment_count"],
        "comment_count",
        "comments.by.id",
        "spilled",
        "removing",
        description="The number of comments that you see. If members with whom you have a block wrote more than 100 "
        "comments, it can include some of theirs.",
    )

    @reads(
        "_id",
        "by.id",
        "comments",
        "spilled",
        length=MAX_LATEST,
        each="last",
        description="The latest comments, oldest first. Up to three take no further query.",
    )
    @staticmethod
    async def latest_comments(
        root: strawberry.Parent[ShownPost],
        info: Info,
        last: Annotated[int, described(f"How many, 1 to {MAX_LATEST}.")] = 3,
    ) -> list[PostComment]:
        if not 1 <= last <= MAX_LATEST:
            text = f"`last` must be between 1 and {MAX_LATEST}; got {last}."
            raise InvalidInput(text, "last", code=InvalidInput.OUT_OF_RANGE, least=1, most=MAX_LATEST)
        comments: Sequence[Mapping[str, Any]] = root.get("comments") or []
        has_more = root.get("spilled") or len(root.get("commenters") or ()) > COMMENTS_READ
        if len(comments) < last and has_more:
            viewer = info.context.subject
            loader = info.context.loader(
                ("latest comments", last), lambda: loaders.latest_comments(info.context.db, viewer=viewer, last=last)
            )
            comments = await loader.load(root["_id"]) or []
        return as_type(list[PostComment], below(root, comments[-last:]))

    @reads(
        "by.id",
        "to.id",
        description="Whether you may delete it: whether you are its author, the owner of the wall or an EDITOR.",
    )
    @staticmethod
    def viewer_can_delete(root: strawberry.Parent[ShownPost], info: Info) -> bool:
        # The view of a post has no owner who has blocked the viewer.
        people = [end["id"] for end in (root["by"], root["to"]) if end is not None]
        return info.context.has_role(Role.EDITOR) or info.context.subject in people

    @reads("_id", "by.id", description="The comments that you see, oldest first.")
    @staticmethod
    async def comments(
        root: strawberry.Parent[ShownPost],
        info: Info,
        first: First = DEFAULT_COMMENTS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[PostComment]:
        return Connection(page=await _comment_page(info.context, root, Span(first, after, last, before)))


async def _comment_page(context: Context, post: ShownPost, span: Span) -> Page:
    extent = extent_of(context, comment_reads.comments_of(post["_id"]), span, default=DEFAULT_COMMENTS)
    page = await context.loader(
        ("pages of comments", extent),
        lambda: loaders.comment_pages(context.db, viewer=context.subject, **extent._asdict()),
    ).load(post["_id"])
    if page is None:
        raise NotFound(POST.name, str(post["_id"]))
    return extent.page_of(context, replace(page, documents=below(post, page.documents)))


@strawberry.type(description="A post with a text.")
class StatusPost(Post):
    pass


@strawberry.type(description="A post with a link.")
class LinkPost(Post):
    url: str = stored("detail.url", description="The address, with the scheme http or https.")


@strawberry.type(description="A post with a photo of the site.")
class PhotoPost(Post):
    photo: Photo | None = related(
        CONTENT.name, "detail.photo", description="The photo; null if it is gone, or if you may not see it."
    )


@strawberry.type(description="A post from a place.")
class CheckinPost(Post):
    place: str = stored("detail.place", description="The name of the place.")
    latitude: float = stored("detail.latitude", description="Degrees, WGS 84.")
    longitude: float = stored("detail.longitude", description="Degrees, WGS 84.")


@strawberry.type(description="An option of a poll.")
class PollOption:
    id: strawberry.ID = part_id("PollOption", lambda option: f"{option['of']}.{option['place']}", "of", "place")
    text: str = stored(description="The text, as written.")
    votes: int = stored(description="How many members have chosen it.")


@strawberry.type(description="A post with a question.")
class PollPost(Post):
    @reads("_id", "detail.options", length=MAX_OPTIONS, description="The options, with their votes.")
    @staticmethod
    async def options(root: strawberry.Parent[ShownPost], info: Info) -> list[PollOption]:
        votes = (await _votes(info.context, root["_id"]))["votes"]
        texts = root["detail"]["options"]
        counts = [*votes, *([0] * (len(texts) - len(votes)))]
        options = [
            {"of": root["_id"], "place": place, "text": text, "votes": count}
            for place, (text, count) in enumerate(zip(texts, counts, strict=False))
        ]
        return as_type(list[PollOption], options)

    @reads("_id", description="Your vote, as the place of the option in the list; null if you have not voted.")
    @staticmethod
    async def viewer_vote(root: strawberry.Parent[ShownPost], info: Info) -> int | None:
        own: int | None = (await _votes(info.context, root["_id"]))["own"]
        return own


async def _votes(context: Context, post: DocumentId) -> Document:
    loader = context.loader("votes", lambda: loaders.votes(context.db, viewer=context.subject))
    found: Any = await loader.load(post)
    return found or {"votes": [], "own": None}


def _month(edge: Any) -> str:
    return month_of(edge.document["posted"])


@strawberry.type(description="A row of a list of posts.")
class PostEdge(Edge[Post]):
    month: str = computed(
        _month, description="The month of the post in UTC, e.g. `201204`: for `month` of a later query."
    )


@strawberry.type(
    description="A page of posts. A page considers a limited number of posts. If you may not see most of them, it can "
    "have fewer posts than `first`, or none, while `hasNextPage` is true. The list continues after `endCursor`."
)
class PostConnection(Connection[Post]):
    edges: list[PostEdge] = computed(  # type: ignore[assignment]
        lambda connection: [PostEdge(page=connection.page, document=row) for row in connection.page.documents],
        length="page",
        description="The rows with their cursors.",
    )


# The projection of lists. The lists have reads of their own, which apply the rule: see `feeds`.
LISTED = Paged.of(POST, POSTS)
