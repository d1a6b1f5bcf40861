"""The mutations of discussions and comments, for callers with a token."""

from typing import Annotated

import strawberry
from graphql import GraphQLError

from portico.resolvers import errors
from portico.resolvers.comments import discussion_subjects
from portico.resolvers.comments import edits as comment_edits
from portico.resolvers.comments import storages as comment_storages
from portico.resolvers.comments.comments import REF, THREADED, CommentRef, PublicComment, listing_of
from portico.resolvers.comments.document_storage import COMMENTS
from portico.resolvers.comments.refusals import DiscussionFull
from portico.resolvers.documents import DocumentId
from portico.schema.connections import Edge, edge_of
from portico.schema.context import Info
from portico.schema.errors import InvalidInput, NotFound, failure
from portico.schema.fields import as_document, as_type
from portico.schema.inputs import idempotency_key
from portico.schema.kinds import Kind, decode_id
from portico.schema.mutations import mutation
from portico.schema.nodes import is_visible
from portico.schema.roles import Role

from .discussions import COMMENT, DISCUSSION, Comment, CommentStorage, Discussion, commenting


@strawberry.input(description="The subject of a discussion to open.")
class OpenDiscussionInput:
    subject_id: strawberry.ID = strawberry.field(description="The object to discuss, e.g. a content node or a product.")
    storage: CommentStorage = strawberry.field(
        default=CommentStorage.DOCUMENTS, description="How to store the comments. Ignored if the discussion exists."
    )
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A new comment.")
class PostCommentInput:
    discussion_id: strawberry.ID = strawberry.field(description="The discussion.")
    parent_slug: str | None = strawberry.field(
        default=None, description="The slug of the comment to reply to. Omit it to start a new thread."
    )
    text: str = strawberry.field(description="CommonMark, up to 10,000 characters; HTML is shown as it is written.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A new text for a comment.")
class EditCommentInput:
    id: strawberry.ID = strawberry.field(description="The comment.")
    text: str = strawberry.field(description="CommonMark, up to 10,000 characters; HTML is shown as it is written.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="The comment to delete.")
class DeleteCommentInput:
    id: strawberry.ID = strawberry.field(description="The comment.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The discussion after the write.")
class DiscussionPayload:
    discussion: Discussion = strawberry.field(description="The discussion.")


@strawberry.type(description="The comment after the write.")
class CommentPayload:
    comment: Comment = strawberry.field(description="The comment. If it was removed: as it was, without its text.")

    @strawberry.field(description="The comment as a row of `comments` of its discussion, in thread order.")
    def comment_edge(self, info: Info) -> Edge[Comment]:
        comment = as_document(self.comment)
        ref: CommentRef = comment[REF]
        listing = listing_of(ref.storage, ref.discussion, order=THREADED, max_depth=None)
        return edge_of(info.context, COMMENTS.name, listing, comment)


failure("The embedded discussion has reached the document size limit.")(DiscussionFull)


OpenDiscussionResult = Annotated[
    DiscussionPayload | NotFound,
    strawberry.union("OpenDiscussionResult", description="The result of opening a discussion."),
]
PostCommentResult = Annotated[
    CommentPayload | DiscussionFull | NotFound | InvalidInput,
    strawberry.union("PostCommentResult", description="The result of posting a comment."),
]
EditCommentResult = Annotated[
    CommentPayload | NotFound | InvalidInput,
    strawberry.union("EditCommentResult", description="The result of editing or deleting a comment."),
]


async def _require_subject(info: Info, global_id: str) -> tuple[str, str, DocumentId]:
    """Returns the kind, the key and the document's id of an object that can be discussed. Raises NotFound."""
    try:
        kind, key = decode_id(info.context, global_id)
    except ValueError:
        raise errors.NotFound("Subject", message="`subjectId` is not the id of an object.") from None
    if kind.name not in info.context.served.hosts:
        raise errors.NotFound(
            kind.name, str(key), message=f"{errors.one_of(kind.name).capitalize()} cannot have a discussion."
        )
    document = (await kind.read(info.context.db, None)([key])).get(key)
    if document is None or not await is_visible(info.context, kind, document):
        raise errors.NotFound(kind.name, str(key))
    return kind.name, str(key), document["_id"]


async def _require_own(info: Info, ref: CommentRef) -> PublicComment | None:
    """Returns a comment that the caller may change, or None if it does not exist, or the caller cannot see it.

    Raises FORBIDDEN unless the caller is its author or an EDITOR.
    """
    caller = info.context.require_caller()
    found = (await comment_storages.find_comments(info.context.db, [ref])).get(ref)
    if found is None or not await is_visible(info.context, COMMENT, found):
        return None
    if found["author"]["id"] != caller.subject and not caller.has(Role.EDITOR):
        raise GraphQLError(
            "The comment belongs to somebody else. Only its author and an EDITOR can change it.",
            extensions={"code": "FORBIDDEN"},
        )
    return found


@strawberry.type
class CommentMutation:
    @mutation(description="Opens a discussion, or returns the existing one. For callers with a token.")
    async def open_discussion(self, info: Info, input: OpenDiscussionInput) -> OpenDiscussionResult | None:
        caller = info.context.require_caller()
        kind, key, document_id = await _require_subject(info, input.subject_id)
        opened = await discussion_subjects.open_for_subject(
            info.context.db,
            info.context.served.hosts,
            kind=kind,
            key=key,
            of=document_id,
            storage=input.storage.name,
            subject=caller.subject,
            now=info.context.now,
        )
        if not await is_visible(info.context, DISCUSSION, opened):
            raise errors.NotFound(kind, key)
        return DiscussionPayload(discussion=as_type(Discussion, opened))

    @mutation(settles=True, description="Posts a comment or a reply. For callers with a token.")
    async def post_comment(self, info: Info, input: PostCommentInput) -> PostCommentResult | None:
        context, caller = info.context, info.context.require_caller()
        key = Kind.key_in(context, DISCUSSION.name, input.discussion_id)
        async with commenting(context, key, is_reply=input.parent_slug is not None) as (discussion, answering):
            posted = await comment_edits.post_comment(
                context.db,
                discussion=discussion,
                parent_slug=input.parent_slug,
                author=caller.author,
                text=input.text,
                answering=answering,
                **context.operation,
            )
        return CommentPayload(comment=as_type(Comment, posted))

    @mutation(description="Changes the text of a comment. For its author or an EDITOR.")
    async def edit_comment(self, info: Info, input: EditCommentInput) -> EditCommentResult | None:
        ref = Kind.key_in(info.context, COMMENT.name, input.id)
        comment = await _require_own(info, ref)
        if comment is None:
            raise errors.NotFound(COMMENT.name, str(ref))
        edited = await comment_edits.edit_comment(
            info.context.db,
            comment=comment,
            text=input.text,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return CommentPayload(comment=as_type(Comment, edited))

    @mutation(
        description="Deletes a comment. While it has replies, it stays without its text. For its author or an EDITOR."
    )
    async def delete_comment(self, info: Info, input: DeleteCommentInput) -> EditCommentResult | None:
        ref = Kind.key_in(info.context, COMMENT.name, input.id)
        comment = await _require_own(info, ref)
        operation_id = info.context.operation_id
        if comment is None:
            deleted = await comment_edits.find_deleted(info.context.db, ref, operation_id)
            if deleted is None:
                raise errors.NotFound(COMMENT.name, str(ref))
        else:
            deleted = await comment_edits.delete_comment(
                info.context.db, comment=comment, now=info.context.now, operation_id=operation_id
            )
        return CommentPayload(comment=as_type(Comment, deleted))
