"""The site: how EDITORs change what is there."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, cast

import strawberry

from portico.resolvers import errors
from portico.resolvers.content import deletion as content_deletion
from portico.resolvers.content import edits as content_edits
from portico.resolvers.content.edits import Edit
from portico.schema.access import require_caller
from portico.schema.context import Info
from portico.schema.errors import InvalidInput, NotFound, SlugTaken, UserError, member
from portico.schema.inputs import idempotency_key
from portico.schema.mutations import DeletedPayload, mutation
from portico.schema.nodes import key_in
from portico.schema.roles import Role

from .creation import SLUG, TAGS, ContentPayload, content_key
from .types import REVISION, ContentNode

_NONCE = "The nonce that the edit is based on."


@strawberry.input(description="Another text for a page or a blog entry.")
class EditTextInput:
    id: strawberry.ID = strawberry.field(description="The page or blog entry.")
    nonce: strawberry.ID = strawberry.field(description=_NONCE)
    text: str = strawberry.field(description="CommonMark.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="Only what is given changes.")
class EditMetadataInput:
    id: strawberry.ID = strawberry.field(description="The node.")
    nonce: strawberry.ID = strawberry.field(description=_NONCE)
    title: strawberry.Maybe[str | None] = strawberry.field(description="For display; it cannot be cleared.")
    slug: strawberry.Maybe[str | None] = strawberry.field(description=f"{SLUG} It cannot be cleared.")
    publish_on: strawberry.Maybe[datetime | None] = strawberry.field(
        description="When readers see a blog entry; null makes a draft of it."
    )
    idempotency_key: str | None = idempotency_key()

    def changes(self) -> dict[str, Any]:
        """What is given, in the words of `edit_metadata`."""
        names = ("title", "slug", "publish_on")
        return {name: found.value for name in names if (found := getattr(self, name)) is not None}


@strawberry.input(description="The text of a revision, once more.")
class RestoreRevisionInput:
    id: strawberry.ID = strawberry.field(description="The page or blog entry.")
    nonce: strawberry.ID = strawberry.field(description=_NONCE)
    revision_id: strawberry.ID = strawberry.field(description="One of its revisions.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="Tags are a set: no nonce is needed, and two editors' tags both stay.")
class TagsInput:
    id: strawberry.ID = strawberry.field(description="The node.")
    tags: list[str] = strawberry.field(description=TAGS)
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="The node to remove. A section must be empty.")
class DeleteContentInput:
    id: strawberry.ID = strawberry.field(description="The node.")
    nonce: strawberry.ID = strawberry.field(description="The nonce that it was read under.")
    idempotency_key: str | None = idempotency_key()


@member(errors.EditConflict)
@strawberry.type(description="Somebody else saved first. Nothing was written.")
class EditConflict(UserError):
    current: ContentNode = strawberry.field(description="The node as it is now.")
    base_text: str | None = strawberry.field(
        description="The text that the caller's edit was based on, while its revision is kept."
    )
    diff: str = strawberry.field(
        description="A unified diff from the current text to the caller's; empty where the text was not edited."
    )
    merged_text: str | None = strawberry.field(
        description="Both edits together; null where they touch the same lines, or the text was not edited."
    )


@member(errors.SectionNotEmpty)
@strawberry.type(description="The section still has children.")
class SectionNotEmpty(UserError):
    pass


@member(errors.PhotoLocked)
@strawberry.type(description="An upload to this photo is in progress.")
class PhotoLocked(UserError):
    since: datetime = strawberry.field(description="When it began.")


EditContentResult = Annotated[
    ContentPayload | EditConflict | SlugTaken | NotFound | InvalidInput,
    strawberry.union("EditContentResult", description="What came of editing a node."),
]
TagsResult = Annotated[
    ContentPayload | NotFound | InvalidInput,
    strawberry.union("TagsResult", description="What came of changing the tags of a node."),
]
DeleteContentResult = Annotated[
    DeletedPayload | EditConflict | SectionNotEmpty | PhotoLocked | NotFound,
    strawberry.union("DeleteContentResult", description="What came of deleting a node."),
]


def _edit(info: Info, input: EditTextInput | EditMetadataInput | RestoreRevisionInput) -> Edit:
    return Edit(
        node_id=content_key(input.id),
        nonce=input.nonce,
        author=require_caller(info.context).author,
        now=info.context.now,
        operation_id=info.context.operation_id,
    )


@strawberry.type
class ContentEditMutation:
    @mutation(role=Role.EDITOR, description="Saves another text of a page or a blog entry. For an EDITOR.")
    async def edit_text(self, info: Info, input: EditTextInput) -> EditContentResult | None:
        edited = await content_edits.edit_text(info.context.db, _edit(info, input), text=input.text)
        return ContentPayload(content=cast("ContentNode", edited))

    @mutation(role=Role.EDITOR, description="Saves another title, slug or day of publication. For an EDITOR.")
    async def edit_metadata(self, info: Info, input: EditMetadataInput) -> EditContentResult | None:
        edited = await content_edits.edit_metadata(info.context.db, _edit(info, input), changes=input.changes())
        return ContentPayload(content=cast("ContentNode", edited))

    @mutation(role=Role.EDITOR, description="Saves the text of a revision as the newest one. For an EDITOR.")
    async def restore_revision(self, info: Info, input: RestoreRevisionInput) -> EditContentResult | None:
        edited = await content_edits.restore_revision(
            info.context.db, _edit(info, input), revision_id=key_in(REVISION.name, input.revision_id)
        )
        return ContentPayload(content=cast("ContentNode", edited))

    @mutation(role=Role.EDITOR, description="Gives a node more tags. For an EDITOR.")
    async def add_tags(self, info: Info, input: TagsInput) -> TagsResult | None:
        tagged = await content_edits.add_tags(
            info.context.db,
            node_id=content_key(input.id),
            tags=input.tags,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return ContentPayload(content=cast("ContentNode", tagged))

    @mutation(role=Role.EDITOR, description="Takes tags away from a node. For an EDITOR.")
    async def remove_tags(self, info: Info, input: TagsInput) -> TagsResult | None:
        tagged = await content_edits.remove_tags(
            info.context.db,
            node_id=content_key(input.id),
            tags=input.tags,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return ContentPayload(content=cast("ContentNode", tagged))

    @mutation(role=Role.EDITOR, description="Removes a node; a section must be empty. For an EDITOR.")
    async def delete_content(self, info: Info, input: DeleteContentInput) -> DeleteContentResult | None:
        await content_deletion.delete_content(
            info.context.db,
            node_id=content_key(input.id),
            nonce=input.nonce,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return DeletedPayload(deleted_id=input.id)
