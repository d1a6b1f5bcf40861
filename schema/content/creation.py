"""The mutations that create sections, pages and blog entries. Photos are in `photos`, edits in `edits`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import strawberry

from portico.resolvers.content import creation as content_creation
from portico.resolvers.content.creation import NewNode
from portico.resolvers.content.nodes import KIND
from portico.resolvers.documents import DocumentId
from portico.resolvers.errors import SlugTaken
from portico.schema.connections import Edge
from portico.schema.context import Context, Info
from portico.schema.errors import InvalidInput, NotFound
from portico.schema.fields import as_document, as_type
from portico.schema.inputs import idempotency_key
from portico.schema.kinds import Kind
from portico.schema.mutations import mutation
from portico.schema.roles import Role

from .rows import CONTENT_EDGE, TAGGED_EDGE, content_edge_of, entry_edge_of, tagged_edge_of
from .types import BlogEntry, ContentEdge, ContentNode, SectionKind, Tag

SLUG = "Letters a to z and A to Z, and digits, with `-`, `_` or `.` between them. Case-sensitive."
TAGS = "A set of tags. White space within a tag becomes single spaces."


@strawberry.input(description="A new section.")
class CreateSectionInput:
    kind: SectionKind = strawberry.field(description="The type of nodes that it can contain, besides other sections.")
    parent_id: strawberry.ID | None = strawberry.field(
        default=None, description="The section above it. Omit it for the root."
    )
    slug: str = strawberry.field(description=SLUG)
    title: str = strawberry.field(description="For display.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A new page.")
class CreatePageInput:
    parent_id: strawberry.ID | None = strawberry.field(
        default=None, description="A section of kind FOLDER. Omit it for the root."
    )
    slug: str = strawberry.field(description=SLUG)
    title: str = strawberry.field(description="For display.")
    text: str = strawberry.field(description="CommonMark.")
    tags: list[str] = strawberry.field(default_factory=list, description=TAGS)
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A new entry of a blog.")
class CreateBlogEntryInput:
    blog_id: strawberry.ID = strawberry.field(description="A section of kind BLOG.")
    slug: str = strawberry.field(description=SLUG)
    title: str = strawberry.field(description="For display.")
    text: str = strawberry.field(description="CommonMark.")
    tags: list[str] = strawberry.field(default_factory=list, description=TAGS)
    publish_on: datetime | None = strawberry.field(
        default=None, description="When readers see the entry. Omit it for a draft."
    )
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The node after the write.")
class ContentPayload:
    content: ContentNode = strawberry.field(description="The node.")

    @strawberry.field(description=CONTENT_EDGE)
    def content_edge(self, info: Info) -> ContentEdge | None:
        return content_edge_of(info.context, as_document(self.content))

    @strawberry.field(description="The entry as a row of `entries` of its blog; null for other nodes, and for drafts.")
    def entry_edge(self, info: Info) -> Edge[BlogEntry] | None:
        return entry_edge_of(info.context, as_document(self.content))

    @strawberry.field(description=TAGGED_EDGE)
    def tagged_edge(self, info: Info, tag: Tag) -> ContentEdge | None:
        return tagged_edge_of(info.context, as_document(self.content), tag)


CreateContentResult = Annotated[
    ContentPayload | SlugTaken | NotFound | InvalidInput,
    strawberry.union("CreateContentResult", description="The result of creating a node."),
]


def content_key(context: Context, global_id: str) -> DocumentId:
    """Returns the key of a node. Raises NotFound."""
    key: DocumentId = Kind.key_in(context, KIND, global_id)
    return key


def new_node(
    info: Info,
    *,
    slug: str,
    title: str,
    parent_id: str | None,
    tags: Sequence[str] = (),
    parent_name: str = "parent_id",
) -> NewNode:
    """Returns the common fields of a new node, with the caller as its author."""
    return NewNode(
        slug=slug,
        title=title,
        author=info.context.require_caller().author,
        parent_id=None if parent_id is None else content_key(info.context, parent_id),
        tags=list(tags),
        parent_name=parent_name,
    )


@strawberry.type
class ContentMutation:
    @mutation(role=Role.EDITOR, description="Creates a section. For an EDITOR.")
    async def create_section(self, info: Info, input: CreateSectionInput) -> CreateContentResult | None:
        created = await content_creation.create_section(
            info.context.db,
            node=new_node(info, slug=input.slug, title=input.title, parent_id=input.parent_id),
            kind=input.kind.name,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return ContentPayload(content=as_type(ContentNode, created))

    @mutation(role=Role.EDITOR, description="Creates a page. For an EDITOR.")
    async def create_page(self, info: Info, input: CreatePageInput) -> CreateContentResult | None:
        created = await content_creation.create_page(
            info.context.db,
            node=new_node(info, slug=input.slug, title=input.title, parent_id=input.parent_id, tags=input.tags),
            text=input.text,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return ContentPayload(content=as_type(ContentNode, created))

    @mutation(role=Role.EDITOR, description="Creates an entry or a draft in a blog. For an EDITOR.")
    async def create_blog_entry(self, info: Info, input: CreateBlogEntryInput) -> CreateContentResult | None:
        created = await content_creation.create_entry(
            info.context.db,
            node=new_node(
                info,
                slug=input.slug,
                title=input.title,
                parent_id=input.blog_id,
                tags=input.tags,
                parent_name="blog_id",
            ),
            text=input.text,
            publish_on=input.publish_on,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return ContentPayload(content=as_type(ContentNode, created))
