"""The mutations that edit and delete nodes of the site."""

from datetime import datetime
from typing import Annotated, Any

import strawberry

from portico.resolvers.content import deletion as content_deletion
from portico.resolvers.content import edits as content_edits
from portico.resolvers.content import refusals
from portico.resolvers.content.edits import Edit
from portico.resolvers.content.refusals import PhotoLocked, SectionNotEmpty
from portico.resolvers.errors import SlugTaken
from portico.schema.context import Info
from portico.schema.errors import InvalidInput, NotFound, UserError, failure, member
from portico.schema.fields import as_type
from portico.schema.inputs import idempotency_key
from portico.schema.kinds import Kind
from portico.schema.mutations import DeletedPayload, mutation
from portico.schema.roles import Role

from .creation import SLUG, TAGS, ContentPayload, content_key
from .types import CONTENT, REVISION, ContentNode

_NONCE = "The nonce that the edit is based on."


@strawberry.input(description="A new text for a page or a blog entry.")
class EditTextInput:
    id: strawberry.ID = strawberry.field(description="The page or blog entry.")
    nonce: strawberry.ID = strawberry.field(description=_NONCE)
    text: str = strawberry.field(description="CommonMark.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="Changes of a node. Omitted fields stay.")
class EditMetadataInput:
    id: strawberry.ID = strawberry.field(description="The node.")
    nonce: strawberry.ID = strawberry.field(description=_NONCE)
    title: strawberry.Maybe[str | None] = strawberry.field(description="For display; it cannot be cleared.")
    slug: strawberry.Maybe[str | None] = strawberry.field(description=f"{SLUG} It cannot be cleared.")
    publish_on: strawberry.Maybe[datetime | None] = strawberry.field(
        description="When readers see the blog entry; null makes it a draft."
    )
    idempotency_key: str | None = idempotency_key()

    def changes(self) -> dict[str, Any]:
        """Returns the given fields, with the names of `edit_metadata`."""
        names = ("title", "slug", "publish_on")
        return {name: found.value for name in names if (found := getattr(self, name)) is not None}


@strawberry.input(description="A revision whose text to restore.")
class RestoreRevisionInput:
    id: strawberry.ID = strawberry.field(description="The page or blog entry.")
    nonce: strawberry.ID = strawberry.field(description=_NONCE)
    revision_id: strawberry.ID = strawberry.field(description="One of its revisions.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="Tags to add or remove. They need no nonce, because concurrent changes do not conflict.")
class TagsInput:
    id: strawberry.ID = strawberry.field(description="The node.")
    tags: list[str] = strawberry.field(description=TAGS)
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="The node to delete. A section must be empty.")
class DeleteContentInput:
    id: strawberry.ID = strawberry.field(description="The node.")
    nonce: strawberry.ID = strawberry.field(description="The nonce that the node was read with.")
    idempotency_key: str | None = idempotency_key()


@member(refusals.EditConflict)
@strawberry.type(description="The node was edited since you read it. Nothing was written.")
class EditConflict(UserError):
    current: ContentNode = strawberry.field(description="The node as it is now.")
    base_text: str | None = strawberry.field(
        description="The text that your edit was based on; null if it is not known, or the node has no text."
    )
    diff: str = strawberry.field(
        description="A unified diff from the current text to yours; empty if you did not edit the text."
    )
    merged_text: str | None = strawberry.field(
        description="The text with both edits; null if they touch the same lines, or you did not edit the text."
    )


failure("The section has children.")(SectionNotEmpty)


failure("An upload to this photo is in progress.", since="When the upload began.")(PhotoLocked)


EditContentResult = Annotated[
    ContentPayload | EditConflict | SlugTaken | NotFound | InvalidInput,
    strawberry.union("EditContentResult", description="The result of editing a node."),
]
TagsResult = Annotated[
    ContentPayload | NotFound | InvalidInput,
    strawberry.union("TagsResult", description="The result of changing the tags of a node."),
]
DeleteContentResult = Annotated[
    DeletedPayload | EditConflict | SectionNotEmpty | PhotoLocked | NotFound,
    strawberry.union("DeleteContentResult", description="The result of deleting a node."),
]


def _edit(info: Info, input: EditTextInput | EditMetadataInput | RestoreRevisionInput) -> Edit:
    return Edit(
        node_id=content_key(info.context, input.id),
        nonce=input.nonce,
        author=info.context.require_caller().author,
        now=info.context.now,
        operation_id=info.context.operation_id,
    )


@strawberry.type
class ContentEditMutation:
    @mutation(role=Role.EDITOR, description="Changes the text of a page or a blog entry. For an EDITOR.")
    async def edit_text(self, info: Info, input: EditTextInput) -> EditContentResult | None:
        edited = await content_edits.edit_text(info.context.db, _edit(info, input), text=input.text)
        return ContentPayload(content=as_type(ContentNode, edited))

    @mutation(role=Role.EDITOR, description="Changes the title, slug or time of publication of a node. For an EDITOR.")
    async def edit_metadata(self, info: Info, input: EditMetadataInput) -> EditContentResult | None:
        edited = await content_edits.edit_metadata(info.context.db, _edit(info, input), changes=input.changes())
        return ContentPayload(content=as_type(ContentNode, edited))

    @mutation(role=Role.EDITOR, description="Sets the text of a node to that of a revision. For an EDITOR.")
    async def restore_revision(self, info: Info, input: RestoreRevisionInput) -> EditContentResult | None:
        edited = await content_edits.restore_revision(
            info.context.db, _edit(info, input), revision_id=Kind.key_in(info.context, REVISION.name, input.revision_id)
        )
        return ContentPayload(content=as_type(ContentNode, edited))

    @mutation(role=Role.EDITOR, description="Adds tags to a node. For an EDITOR.")
    async def add_tags(self, info: Info, input: TagsInput) -> TagsResult | None:
        tagged = await content_edits.add_tags(
            info.context.db,
            node_id=content_key(info.context, input.id),
            tags=input.tags,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return ContentPayload(content=as_type(ContentNode, tagged))

    @mutation(role=Role.EDITOR, description="Removes tags from a node. For an EDITOR.")
    async def remove_tags(self, info: Info, input: TagsInput) -> TagsResult | None:
        tagged = await content_edits.remove_tags(
            info.context.db,
            node_id=content_key(info.context, input.id),
            tags=input.tags,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return ContentPayload(content=as_type(ContentNode, tagged))

    @mutation(role=Role.EDITOR, description="Deletes a node. A section must be empty. For an EDITOR.")
    async def delete_content(self, info: Info, input: DeleteContentInput) -> DeleteContentResult | None:
        parent = await content_deletion.delete_content(
            info.context.db,
            info.context.served.attachments,
            node_id=content_key(info.context, input.id),
            nonce=input.nonce,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return DeletedPayload.of(input.id, CONTENT.name, [] if parent is None else [parent])
