"""The types and queries of the site. Mutations are in `creation` and `edits`, photos in `photos`."""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import strawberry

from portico.loaders.content import nodes as loaders
from portico.loaders.content import revisions as revision_loaders
from portico.resolvers.content import nodes as content
from portico.resolvers.content import revisions
from portico.resolvers.content.nodes import NodeDocument
from portico.resolvers.content.rules import comparable_tag
from portico.resolvers.documents import projection_name
from portico.resolvers.errors import InvalidInput
from portico.resolvers.paging import Listing
from portico.resolvers.texts import trimmed
from portico.schema.authors import Author
from portico.schema.connections import Connection, Edge, Paged
from portico.schema.context import Info, core
from portico.schema.fields import as_type, computed, reads, related, stored
from portico.schema.inputs import After, Before, First, Last, Span, described
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.markdown import first_picture, page_html, plain_text
from portico.schema.nodes import is_visible, loader_of, projection_of
from portico.schema.rendering import rendered
from portico.schema.roles import Role

from . import covers
from .drafts import sees_until
from .excerpts import BEGINNING, DEFAULT_EXCERPT, MAX_EXCERPT, MIN_EXCERPT, minutes_to_read, shortened

DEFAULT_CONTENT = 20
# In characters, for the cost of an operation. Only EDITORs write longer ones.
_USUAL_TEXT = 20_000
_TYPES = {content.SECTION: "Section", content.PAGE: "Page", content.ENTRY: "BlogEntry", content.PHOTO: "Photo"}

CONTENT = Kind(
    name=content.KIND,
    path="_id",
    parse=Kind.document_id,
    read=loaders.by_id,
    collection=content.NODES.name,
    types=tuple(_TYPES.values()),
    type_name=lambda document: _TYPES[document["type"]],
    discriminator=content.DISCRIMINATOR,
    visible_to=lambda document, context: content.is_visible(document, sees_until(context)),
)
REVISION = Kind.of(
    "Revision",
    revisions.REVISIONS,
    parse=revisions.revision_id,
    read=revision_loaders.by_id,
    visible_to=lambda _document, context: sees_until(context) is None,
)
NODE_PAGES = Paged(CONTENT.name, loaders.pages, name="Content")
ENTRY_PAGES = Paged(CONTENT.name, loaders.pages, name="BlogEntry")
REVISION_PAGES = Paged.of(REVISION, revisions.REVISIONS, counts=lambda context, _wanted: sees_until(context) is None)


Tag = Annotated[str, described("The tag. Case-sensitive.")]


@strawberry.interface(
    description="A node of the site. Only EDITORs see drafts, entries with a future `publishOn`, and photos whose "
    "first upload is not complete."
)
class ContentNode(Node):
    id: strawberry.ID = node_id(CONTENT.name, "_id")
    slug: str = stored(description="Unique below the parent, for use in URLs.")
    title: str = stored(description="For display.")
    parent: "ContentNode | None" = related(
        CONTENT.name, "parent", description="The section that contains it; null at the root."
    )
    created: datetime = stored(description="When it was created.")
    updated: datetime = stored(description="When it was last changed.")
    author: Author = stored(description="Who created it.")
    tags: list[str] = stored(default=(), length=10, description="The tags, the oldest first.")
    nonce: strawberry.ID = stored(
        description="Changes with every edit, except edits of tags. An edit must name the nonce that it is based on."
    )

    @reads("_id", description="Whether you may edit it: whether you are an EDITOR.")
    @staticmethod
    def viewer_can_edit(root: strawberry.Parent[NodeDocument], info: Info) -> bool:  # noqa: ARG004
        return info.context.has_role(Role.EDITOR)

    @reads(
        "_id",
        "type",
        "detail.upload",
        description="Whether you may delete it now: you are an EDITOR, and it is neither a section with children nor a "
        "photo with an upload in progress.",
    )
    @staticmethod
    async def viewer_can_delete(root: strawberry.Parent[NodeDocument], info: Info) -> bool:
        context = info.context
        if not context.has_role(Role.EDITOR) or content.is_uploading(root, context.now):
            return False
        if root["type"] != content.SECTION:
            return True
        loader = context.loader("sections with children", lambda: loaders.with_children(context.db))
        return not await loader.load(root["_id"])

    @reads("ancestors", "slug", description="The slugs from the root, e.g. `/blog/2012-03-noticed-the-news`.")
    @staticmethod
    async def path(root: strawberry.Parent[NodeDocument], info: Info) -> str:
        return content.path_of(root, await _slugs(info).load_all(root["ancestors"]))


def _slugs(info: Info) -> Any:
    return info.context.loader("content slugs", lambda: loaders.slugs(info.context.reading))


@strawberry.enum(description="The type of nodes that a section contains, besides other sections.")
class SectionKind(Enum):
    FOLDER = strawberry.enum_value("FOLDER", description="Contains pages.")
    BLOG = strawberry.enum_value("BLOG", description="Contains blog entries.")
    GALLERY = strawberry.enum_value("GALLERY", description="Contains photos.")


@strawberry.type(description="A row of a list of nodes.")
class ContentEdge(Edge[ContentNode]):
    pass


@strawberry.type(description="A page of nodes.")
class ContentConnection(Connection[ContentNode]):
    edges: list[ContentEdge] = computed(  # type: ignore[assignment]
        lambda connection: [ContentEdge(page=connection.page, document=row) for row in connection.page.documents],
        length="page",
        description="The rows with their cursors.",
    )


@strawberry.type(description="A current or earlier text of a page or an entry.")
class Revision(Node):
    id: strawberry.ID = node_id(REVISION.name, "_id")
    nonce: strawberry.ID = stored(description="The `nonce` of the node while this was its text.")
    text: str = stored(text=_USUAL_TEXT, description="CommonMark, as written.")
    author: Author = stored(description="Who saved it.")
    created: datetime = stored(description="When it was saved.")


@strawberry.type
class _Written(ContentNode):
    """The common fields of pages and blog entries."""

    text: str = stored("detail.text", text=_USUAL_TEXT, description="CommonMark, as written.")

    @reads("detail.text", text=_USUAL_TEXT, description="The rendered text. It is safe to insert into a page.")
    @staticmethod
    async def html(root: strawberry.Parent[NodeDocument], info: Info) -> str:
        return await rendered(info.context, page_html, root["detail"]["text"])

    @reads("_id", description="The texts, newest first; the first is the current one. For EDITORs; empty for others.")
    @staticmethod
    async def revisions(
        root: strawberry.Parent[NodeDocument],
        info: Info,
        first: First = DEFAULT_CONTENT,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[Revision]:
        if sees_until(info.context) is not None:
            return Connection(page=revisions.no_revisions(info.context.reading, root["_id"]))
        listing = revisions.revisions_of(root["_id"])
        return Connection(
            page=await REVISION_PAGES.spanned(info, listing, Span(first, after, last, before), default=DEFAULT_CONTENT)
        )


@strawberry.type(description="A standalone text, e.g. an imprint.")
class Page(_Written):
    pass


@strawberry.type(description="The first picture in the text of a blog entry.")
class Cover:
    url: str = stored(description="The address: a path on this server, or an address of another one.")
    alt: str = stored(description="What it shows, for people who do not see it. Empty for a mere decoration.")
    width: int | None = computed(
        lambda cover: covers.size_of(cover, "width"),
        "photo",
        description="Pixels. Null for a picture of another server.",
    )
    height: int | None = computed(
        lambda cover: covers.size_of(cover, "height"),
        "photo",
        description="Pixels. Null for a picture of another server.",
    )

    @reads("url", "photo", description="The path of a thumbnail; `url` for a picture of another server.")
    @staticmethod
    def thumbnail_url(
        root: strawberry.Parent[covers.CoverOf],
        width: Annotated[int, described("Pixels, 16 or more. It is rounded down to one of a few widths.")] = 320,
    ) -> str:
        return covers.thumbnail_of(root, width)


@strawberry.type(description="An entry of a blog.")
class BlogEntry(_Written):
    @reads("detail.text", text=_USUAL_TEXT, description="About how many minutes it takes to read the text, 1 or more.")
    @staticmethod
    def reading_minutes(root: strawberry.Parent[NodeDocument]) -> int:
        return minutes_to_read(root["detail"]["text"])

    @reads(
        "detail.text",
        text=_USUAL_TEXT,
        description="The beginning of the text without markup, headings and pictures. It ends with `…` if there is "
        "more.",
    )
    @staticmethod
    async def excerpt(
        root: strawberry.Parent[NodeDocument],
        info: Info,
        length: Annotated[int, described(f"Characters at most, {MIN_EXCERPT} to {MAX_EXCERPT}.")] = DEFAULT_EXCERPT,
    ) -> str:
        if not MIN_EXCERPT <= length <= MAX_EXCERPT:
            text = f"`length` must be between {MIN_EXCERPT} and {MAX_EXCERPT}; got {length}."
            raise InvalidInput(text, "length")
        return shortened(await rendered(info.context, plain_text, root["detail"]["text"][:BEGINNING]), length)

    @reads(
        "detail.text",
        text=_USUAL_TEXT,
        extra=1,
        description="The first picture in the beginning of the text; null if there is none, or if it is gone.",
    )
    @staticmethod
    async def cover(root: strawberry.Parent[NodeDocument], info: Info) -> Cover | None:
        found = covers.parse(await rendered(info.context, first_picture, root["detail"]["text"][:BEGINNING]))
        if found is None or found["photo_id"] is None:
            return as_type(Cover, found)
        photo = await loader_of(CONTENT, covers.PHOTO)(info.context).load(found["photo_id"])
        return as_type(Cover, None if photo is None else covers.with_photo(found, photo))

    publish_on: datetime | None = stored(
        "detail.publish_on", description="Readers see the entry from then on; null for a draft."
    )


@strawberry.type(description="A section of the site. It contains other nodes.")
class Section(ContentNode):
    kind: SectionKind = stored("detail.kind", description="The type of nodes that it contains, besides other sections.")

    @reads("_id", description="The nodes directly below this section, by title.")
    @staticmethod
    async def children(
        root: strawberry.Parent[NodeDocument],
        info: Info,
        first: First = DEFAULT_CONTENT,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> ContentConnection:
        return await _content_page(
            info, content.children_of(root["_id"], sees_until(info.context)), Span(first, after, last, before)
        )

    @reads("_id", description="The published entries of a blog, newest first. Empty for other sections.")
    @staticmethod
    async def entries(
        root: strawberry.Parent[NodeDocument],
        info: Info,
        first: First = DEFAULT_CONTENT,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[BlogEntry]:
        listing = content.entries_of(root["_id"], info.context.compared_now)
        return Connection(
            page=await ENTRY_PAGES.spanned(info, listing, Span(first, after, last, before), default=DEFAULT_CONTENT)
        )


async def _content_page(info: Info, listing: Listing, span: Span) -> ContentConnection:
    page = await NODE_PAGES.spanned(info, listing, span, default=DEFAULT_CONTENT)
    return ContentConnection(page=page)


@strawberry.type
class ContentQuery:
    @strawberry.field(description="The node at a path, e.g. `/about`; null if there is none.")
    async def content(
        self, info: Info, path: Annotated[str, described("The slugs from the root, each after a `/`.")]
    ) -> ContentNode | None:
        slugs = content.parse_path(trimmed(path))
        if slugs is None:
            return None
        projection = projection_of(core(info), CONTENT)
        name = ("content by path", projection_name(projection))
        loader = info.context.loader(name, lambda: loaders.by_path(info.context.reading, projection))
        node = (await loader.load_all((slugs,))).get(slugs)
        if node is None or not await is_visible(info.context, CONTENT, node):
            return None
        # Selections of its path then need no read of slugs.
        for key, slug in zip((*node["ancestors"], node["_id"]), slugs, strict=True):
            _slugs(info).prime(key, slug)
        return as_type(ContentNode, node)

    @strawberry.field(
        description="The sections at the root, by title. With their `children`, they are the navigation of a site."
    )
    async def root_sections(
        self,
        info: Info,
        first: First = DEFAULT_CONTENT,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> ContentConnection | None:
        return await _content_page(
            info, content.root_sections(sees_until(info.context)), Span(first, after, last, before)
        )

    @strawberry.field(description="All nodes at the root, by title: sections, and pages such as an imprint.")
    async def root_content(
        self,
        info: Info,
        first: First = DEFAULT_CONTENT,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> ContentConnection | None:
        return await _content_page(
            info, content.children_of(None, sees_until(info.context)), Span(first, after, last, before)
        )

    @strawberry.field(description="Nodes of every type with a tag, newest first.")
    async def content_by_tag(
        self,
        info: Info,
        tag: Tag,
        first: First = DEFAULT_CONTENT,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> ContentConnection | None:
        span = Span(first, after, last, before)
        wanted = span.beside(DEFAULT_CONTENT, comparable_tag, tag)
        return await _content_page(info, content.tagged(wanted, sees_until(info.context)), span)
