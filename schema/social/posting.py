"""The mutations of posts: posting, comments, votes and deletions. For members."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any

import strawberry
from graphql import GraphQLError

from portico.resolvers import errors
from portico.resolvers.content import nodes as content
from portico.resolvers.documents import Document, DocumentId
from portico.resolvers.social import (
    comment_reads,
    fan_out,
    member_rates,
    members,
    post_comments,
    post_edits,
    post_rules,
    visibility,
    votes,
)
from portico.resolvers.social.fresh_posts import FreshPosts
from portico.resolvers.social.known_members import KnownMembers
from portico.resolvers.social.listed_posts import WALL, PostList
from portico.resolvers.social.member_rates import Action, Counting
from portico.resolvers.social.posts import POSTS
from portico.resolvers.social.settings import SocialSettings
from portico.resolvers.together import both
from portico.schema.connections import Edge, edge_of
from portico.schema.content.types import CONTENT
from portico.schema.context import Context, Info
from portico.schema.errors import Conflict, InvalidInput, NotFound
from portico.schema.fields import as_document, as_type, kept_privately
from portico.schema.inputs import idempotency_key
from portico.schema.kinds import Kind
from portico.schema.mutations import DeletedPayload, mutation
from portico.schema.nodes import shown
from portico.schema.reading import find_visible
from portico.schema.roles import Role
from portico.schema.viewer import ShowsViewer

from .posts import POST, Audience, Post, PostComment, PostEdge, below, comment_key
from .users import USER

_TEXT = "Up to 100,000 characters."


@strawberry.input(description="A text.")
class StatusInput:
    text: str = strawberry.field(description="1 to 100,000 characters.")


@strawberry.input(description="A link to a page.")
class LinkInput:
    url: str = strawberry.field(description="An http or https address.")
    text: str = strawberry.field(default="", description=_TEXT)


@strawberry.input(description="A photo of the site.")
class PhotoPostInput:
    photo_id: strawberry.ID = strawberry.field(description="A photo that the viewer may see.")
    text: str = strawberry.field(default="", description=_TEXT)


@strawberry.input(description="A place.")
class CheckinInput:
    place: str = strawberry.field(description="The name of the place: 1 to 200 characters.")
    latitude: float = strawberry.field(description="Degrees, WGS 84: -90 to 90.")
    longitude: float = strawberry.field(description="Degrees, WGS 84: -180 to 180.")
    text: str = strawberry.field(default="", description=_TEXT)


@strawberry.input(description="A question with options.")
class PollInput:
    text: str = strawberry.field(description="The question: 1 to 100,000 characters.")
    options: list[str] = strawberry.field(description="2 to 10 different texts of 1 to 200 characters.")


@strawberry.input(one_of=True, description="Exactly one kind of post.")
class PostDetailInput:
    status: StatusInput | None = strawberry.field(default=strawberry.UNSET, description="A text.")
    link: LinkInput | None = strawberry.field(default=strawberry.UNSET, description="A link to a page.")
    photo: PhotoPostInput | None = strawberry.field(default=strawberry.UNSET, description="A photo of the site.")
    checkin: CheckinInput | None = strawberry.field(default=strawberry.UNSET, description="A place.")
    poll: PollInput | None = strawberry.field(default=strawberry.UNSET, description="A question with options.")

    async def chosen(self, context: Context) -> tuple[str, dict[str, Any]]:
        """Returns the kind of the post and its detail, with the key of the photo. Raises NotFound, InvalidInput."""
        given = {kind: value for kind in post_rules.KINDS if (value := getattr(self, kind)) is not strawberry.UNSET}
        (kind, value), *_ = given.items()
        detail = dict(vars(value))
        if kind == post_rules.PHOTO:
            detail["photo"] = await _require_photo(context, detail.pop("photo_id"))
        return kind, detail


@strawberry.input(description="A new post.")
class CreatePostInput:
    detail: PostDetailInput = strawberry.field(description="The post.")
    to_id: strawberry.ID | None = strawberry.field(
        default=None, description="The user whose wall it is for. Omit it for the viewer's own wall."
    )
    audience: Audience = strawberry.field(default=Audience.PUBLIC, description="Who sees it.")
    circles: list[str] | None = strawberry.field(
        default=None, description="With SELECTED: one or more of the viewer's circles."
    )
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A new comment on a post.")
class CommentOnPostInput:
    post_id: strawberry.ID = strawberry.field(description="The post.")
    text: str = strawberry.field(description="1 to 10,000 characters.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A vote on a poll.")
class VoteInput:
    post_id: strawberry.ID = strawberry.field(description="The poll.")
    option: int = strawberry.field(description="The place of the option in the list, from 0.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="The post to delete.")
class DeletePostInput:
    post_id: strawberry.ID = strawberry.field(description="The post.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="The comment to delete.")
class DeletePostCommentInput:
    post_id: strawberry.ID = strawberry.field(description="The post.")
    comment_id: strawberry.ID = strawberry.field(description="The comment.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The post after the write.")
class PostPayload(ShowsViewer):
    post: Post = strawberry.field(description="The current post.")
    commented: strawberry.Private[Document | None] = kept_privately()
    deleted_comment_id: strawberry.ID | None = strawberry.field(
        default=None, description="The `id` of the comment that the call has deleted; null after another call."
    )

    @strawberry.field(description="The post as a row of the wall that it is on.")
    def post_edge(self, info: Info) -> PostEdge:
        post = as_document(self.post)
        wall = PostList(WALL, (post["to"] or post["by"])["id"]).listing()
        return PostEdge(**vars(edge_of(info.context, POSTS.name, wall, post)))

    @strawberry.field(description="The new comment; null after another call, and if the comment is gone.")
    async def comment(self, info: Info) -> PostComment | None:
        return as_type(PostComment, await self._comment(info))

    @strawberry.field(description="The new comment as a row of `comments` of the post.")
    async def comment_edge(self, info: Info) -> Edge[PostComment] | None:
        comment = await self._comment(info)
        if comment is None:
            return None
        listing = comment_reads.comments_of(as_document(self.post)["_id"])
        return edge_of(info.context, POSTS.name, listing, comment)

    async def _comment(self, info: Info) -> Document | None:
        if self.commented is None:
            return None
        post = as_document(self.post)
        row = await comment_reads.find_row(info.context.db, post, self.commented["_id"])
        return None if row is None else below(post, [row])[0]


PostResult = Annotated[
    PostPayload | NotFound | InvalidInput | Conflict,
    strawberry.union(
        "PostResult",
        description="The result of a change of a post. A Conflict means that too many members change it at once.",
    ),
]
DeletePostResult = Annotated[
    DeletedPayload | NotFound, strawberry.union("DeletePostResult", description="The result of deleting a post.")
]


@strawberry.type
class PostingMutation:
    @mutation(
        settles=True,
        description="Posts on the viewer's wall, or on the wall of another member. The viewer's followers get it in "
        "their news feeds soon after.",
    )
    async def create_post(self, info: Info, input: CreatePostInput) -> PostResult | None:
        context, subject = info.context, info.context.require_caller().subject
        async with _counting(context, subject, member_rates.POSTS) as counting:
            author, has_recipients = await post_edits.require_poster(context.db, subject)
            kind, detail = await input.detail.chosen(context)
            fresh = context.resources.of(FreshPosts)
            claim = fresh.claim(subject)
            made = await post_edits.create_post(
                context.db,
                author=author,
                to=None if input.to_id is None else Kind.key_in(context, USER.name, input.to_id),
                kind=kind,
                detail=detail,
                audience=input.audience.name,
                circle_names=input.circles or (),
                has_recipients=has_recipients,
                claim=claim,
                counting=counting,
                answering=context.answering,
                **context.operation,
            )
        if "fan_out" in made:
            if claim is not None and made["fan_out"].get("op") == claim:
                fresh.add(made)
            context.resources.wake(fan_out.JOB)
        return await _payload_of(context, made)

    @mutation(description="Comments on a post.")
    async def comment_on_post(self, info: Info, input: CommentOnPostInput) -> PostResult | None:
        context, subject = info.context, info.context.require_caller().subject
        async with _counting(context, subject, member_rates.COMMENTS) as counting:
            author, post = await both(_require_member(context), find_visible(context, POST.name, input.post_id))
            comment = await post_comments.comment_on_post(
                context.db,
                post_id=post["_id"],
                author=author,
                text=input.text,
                counting=counting,
                **context.operation,
            )
        payload = await _payload(context, post["_id"])
        payload.commented = {"_id": comment}
        return payload

    @mutation(
        description="Deletes a post with its comments, from every wall and news feed. For its author, for the owner of "
        "the wall, and for an EDITOR."
    )
    async def delete_post(self, info: Info, input: DeletePostInput) -> DeletePostResult | None:
        context = info.context
        post_id = Kind.key_in(info.context, POST.name, input.post_id)
        post = await _require_deletable(context, post_id)
        await post_edits.delete_post(context.db, post_id=post_id, **context.operation)
        return DeletedPayload.of(input.post_id, USER.name, [post["by"]["id"], post["to"]["id"]])

    @mutation(description="Deletes a comment. For its author, for the author of the post, and for an EDITOR.")
    async def delete_post_comment(self, info: Info, input: DeletePostCommentInput) -> PostResult | None:
        context = info.context
        post_id, comment_id = Kind.key_in(info.context, POST.name, input.post_id), comment_key(input.comment_id)
        await _require_deletable_comment(context, post_id, comment_id)
        await post_comments.delete_comment(
            context.db, post_id=post_id, comment_id=comment_id, operation_id=context.operation_id
        )
        payload = await _payload(context, post_id, otherwise="The comment is deleted. You cannot see its post.")
        payload.deleted_comment_id = input.comment_id
        return payload

    @mutation(settles=True, description="Votes on a poll. A member has one vote, and the latest one counts.")
    async def vote(self, info: Info, input: VoteInput) -> PostResult | None:
        context, voter = info.context, info.context.require_caller().subject
        async with _counting(context, voter, member_rates.VOTES) as counting:
            post = await _visible_to_member(context, voter, input.post_id)
            await votes.vote(
                context.db,
                post_id=post["_id"],
                voter=voter,
                option=input.option,
                post=post,
                counting=counting,
                answering=context.answering,
                **context.operation,
            )
        # The votes are apart from the post.
        return PostPayload(post=as_type(Post, post))


async def _require_member(context: Context) -> Document:
    """Returns {id, name} of the caller as a member. Raises UNAUTHENTICATED, NotFound."""
    member = await members.require(context.db, context.require_caller().subject, {"name": 1})
    return {"id": member["_id"], "name": member["name"]}


async def _visible_to_member(context: Context, subject: str, global_id: str) -> Document:
    """Returns a post that the caller, who must be a member, may see. Raises NotFound."""
    known = context.resources.of(KnownMembers)
    finding = find_visible(context, POST.name, global_id)
    if known.has(subject, context.now):
        return await finding
    _, post = await both(known.require(context.db, subject, now=context.now), finding)
    return post


def _counting(context: Context, subject: str, action: Action) -> AbstractAsyncContextManager[Counting]:
    """Counts an action of the member while the block checks and carries it out. See `member_rates.counting`."""
    rate = context.resources.of(SocialSettings).social_rate
    return member_rates.counting(context.db, subject, action, rate=rate, **context.operation)


async def _payload(context: Context, post_id: DocumentId, *, otherwise: str | None = None) -> PostPayload:
    """Returns the post as the caller sees it now. Raises NotFound with the message `otherwise`."""
    found = await _find(context, post_id)
    if found is None:
        raise errors.NotFound(POST.name, str(post_id), otherwise)
    return await _payload_of(context, found, otherwise=otherwise)


async def _payload_of(context: Context, post: Mapping[str, Any], *, otherwise: str | None = None) -> PostPayload:
    """Returns the post, as it was stored or read, as the caller sees it. Raises NotFound with this message."""
    view = await shown(context, POST, post)
    if view is None:
        raise errors.NotFound(POST.name, str(post["_id"]), otherwise)
    return PostPayload(post=as_type(Post, view))


async def _find(context: Context, post_id: DocumentId) -> Mapping[str, Any] | None:
    return (await POST.read(context.db, None)([post_id])).get(post_id)


async def _require_photo(context: Context, global_id: str) -> DocumentId:
    photo = await find_visible(context, CONTENT.name, global_id)
    if photo["type"] != content.PHOTO:
        path = "detail", post_rules.PHOTO, "photo_id"
        raise errors.InvalidInput("The content is not a photo.", *path, code=errors.InvalidInput.NOT_ALLOWED)
    key: DocumentId = photo["_id"]
    return key


async def _require_deletable(context: Context, post_id: DocumentId) -> Mapping[str, Any]:
    """Returns the post. Raises NotFound if the caller does not see the post, and FORBIDDEN if it is somebody else's.

    Those who may delete a post need not see it, so a block does not protect what its author has written on a wall. A
    deleted post passes, because an earlier call may have deleted it.
    """
    caller = context.require_caller()
    post = await _find(context, post_id)
    if post is None:
        raise errors.NotFound(POST.name, str(post_id))
    if "deleted" in post or caller.has(Role.EDITOR) or caller.subject in {post["by"]["id"], post["to"]["id"]}:
        return post
    if await shown(context, POST, post) is None:
        raise errors.NotFound(POST.name, str(post_id))
    raise _forbidden("The post belongs to somebody else. Its author, the owner of the wall and an EDITOR delete it.")


async def _require_deletable_comment(context: Context, post_id: DocumentId, comment_id: DocumentId) -> None:
    """Raises NotFound if the caller does not see the comment, and FORBIDDEN if it is somebody else's.

    Those who may delete a comment need not see it. A comment that is gone passes, because an earlier call may have
    deleted it.
    """
    caller = context.require_caller()
    post = await _find(context, post_id)
    if post is None or "deleted" in post:
        raise errors.NotFound(POST.name, str(post_id))
    comment = await post_comments.find_comment(context.db, post_id, comment_id)
    author = None if comment is None else comment["by"]["id"]
    if caller.has(Role.EDITOR) or caller.subject in {author, post["by"]["id"]}:
        return
    if await shown(context, POST, post) is None:
        raise errors.NotFound(POST.name, str(post_id))
    if author is None:
        return
    if visibility.is_blocked(await visibility.find_relations(context.db, caller.subject, [author]), author):
        raise errors.NotFound(post_comments.COMMENT, str(comment_id))
    raise _forbidden(
        "The comment belongs to somebody else. Its author, the author of the post and an EDITOR delete it."
    )


def _forbidden(message: str) -> GraphQLError:
    return GraphQLError(message, extensions={"code": "FORBIDDEN"})
