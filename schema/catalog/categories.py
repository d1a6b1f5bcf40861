"""The product hierarchy."""

from typing import Annotated

import strawberry

from portico.loaders.catalog import categories as loaders
from portico.resolvers.catalog import categories, category_edits
from portico.resolvers.catalog.categories import CategoryDocument
from portico.resolvers.catalog.refusals import CategoryCycle, CategoryNotEmpty
from portico.resolvers.documents import Document, DocumentId, projection_name
from portico.resolvers.errors import SlugTaken
from portico.resolvers.paging import Listing
from portico.resolvers.texts import trimmed
from portico.schema.connections import Connection, Edge, Paged, edge_of
from portico.schema.context import Info, core
from portico.schema.errors import Conflict, InvalidInput, NotFound, failure
from portico.schema.fields import as_document, as_type, kept_privately, reads, related, stored
from portico.schema.inputs import After, Before, First, Last, Span, described, idempotency_key
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.mutations import DeletedPayload, mutation
from portico.schema.nodes import projection_of
from portico.schema.parts import part_id
from portico.schema.reading import load_one

from .images import Image, images_field
from .merchants import MERCHANT

DEFAULT_CATEGORIES = 50

CATEGORY = Kind.of(
    "Category",
    categories.CATEGORIES,
    read=loaders.by_id,
    visible_to=Kind.everybody,
)
PAGES = Paged.of(CATEGORY, categories.CATEGORIES)


@strawberry.type(description="An ancestor, stored in the category's document: reading it needs no additional query.")
class Breadcrumb:
    id: strawberry.ID = part_id("Breadcrumb", lambda ancestor: ancestor["_id"], "_id")
    category_id: strawberry.ID = node_id("Category", "_id", description="The `id` of the category.")
    slug: str = stored(description="The ancestor's slug.")
    name: str = stored(description="The ancestor's name.")


@strawberry.type(description="A category of the product hierarchy. Its ancestors are stored in its own document.")
class Category(Node):
    id: strawberry.ID = node_id("Category", "_id")
    slug: str = stored(description="Unique in the whole hierarchy, for use in URLs.")
    name: str = stored(description="For display.")
    description: str | None = stored(text=20_000, description="In plain text.")
    images: list[Image] = images_field("category")
    breadcrumbs: list[Breadcrumb] = stored(
        "ancestors",
        default=(),
        length=8,
        description="The ancestors from the root down to the parent.",
    )
    parent: "Category | None" = related("Category", "parent", description="The parent category; null for a root.")

    @reads("_id", description="The direct children of this category, by name.")
    @staticmethod
    async def children(
        root: strawberry.Parent[CategoryDocument],
        info: Info,
        first: First = DEFAULT_CATEGORIES,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> "Connection[Category]":
        return await _category_page(info, categories.children_of(root["_id"]), Span(first, after, last, before))

    @reads("_id", description="Every category below this one, at any depth, by name.")
    @staticmethod
    async def descendants(
        root: strawberry.Parent[CategoryDocument],
        info: Info,
        first: First = DEFAULT_CATEGORIES,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> "Connection[Category]":
        return await _category_page(info, categories.descendants_of(root["_id"]), Span(first, after, last, before))


async def _category_page(info: Info, listing: Listing, span: Span) -> Connection[Category]:
    return Connection(page=await PAGES.spanned(info, listing, span, default=DEFAULT_CATEGORIES))


@strawberry.type
class CategoryQuery:
    @strawberry.field(description="The category with this slug.")
    async def category(self, info: Info, slug: Annotated[str, described("The category's slug.")]) -> Category | None:
        projection = projection_of(core(info), CATEGORY)
        name = ("Category by slug", projection_name(projection))
        loader = info.context.loader(name, lambda: loaders.by_slug(info.context.reading, projection))
        return as_type(Category, await loader.load(trimmed(slug)))

    @strawberry.field(description="The roots of the hierarchy, by name.")
    async def categories(
        self,
        info: Info,
        first: First = DEFAULT_CATEGORIES,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[Category] | None:
        return await _category_page(info, categories.children_of(None), Span(first, after, last, before))


@strawberry.input(description="A new category.")
class CreateCategoryInput:
    name: str = strawberry.field(description="For display.")
    slug: str = strawberry.field(description="Lower-case letters, digits, and single `-`, `_` or `.` between them.")
    parent_id: strawberry.ID | None = strawberry.field(
        default=None, description="The parent. Omit it to create a root."
    )
    description: str | None = strawberry.field(default=None, description="In plain text.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A new name, slug or description, or several of them.")
class RenameCategoryInput:
    id: strawberry.ID = strawberry.field(description="The category.")
    name: str | None = strawberry.field(default=None, description="Omit it or pass null to keep it.")
    slug: str | None = strawberry.field(default=None, description="Omit it or pass null to keep it.")
    description: strawberry.Maybe[str | None] = strawberry.field(description="In plain text. Null clears it.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A new parent for a category. Everything below moves with it.")
class MoveCategoryInput:
    id: strawberry.ID = strawberry.field(description="The category.")
    new_parent_id: strawberry.ID | None = strawberry.field(
        default=None, description="The new parent. Null makes the category a root."
    )
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="The category to remove. It must have neither children nor products.")
class DeleteCategoryInput:
    id: strawberry.ID = strawberry.field(description="The category.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The category after the write.")
class CategoryPayload:
    category: Category = strawberry.field(description="The current category.")
    moved: strawberry.Private[Document | None] = kept_privately()

    @strawberry.field(
        name="from",
        description="After a move, the former parent as it is now. Null for a former root, and after other changes.",
    )
    async def from_(self, info: Info) -> Category | None:
        key = None if self.moved is None else self.moved["from"]
        return None if key is None else as_type(Category, await load_one(info, CATEGORY, key))

    @strawberry.field(
        description="The category as a row of `children` of its parent, or of `categories` if it is a root."
    )
    def category_edge(self, info: Info) -> Edge[Category]:
        category = as_document(self.category)
        siblings = categories.children_of(category["parent"])
        return edge_of(info.context, categories.CATEGORIES.name, siblings, category)


failure("The new parent is the category itself or is below it.")(CategoryCycle)


failure("The category still has children or products.")(CategoryNotEmpty)


CreateCategoryResult = Annotated[
    CategoryPayload | SlugTaken | NotFound | InvalidInput,
    strawberry.union("CreateCategoryResult", description="The result of creating a category."),
]
RenameCategoryResult = Annotated[
    CategoryPayload | SlugTaken | NotFound | InvalidInput,
    strawberry.union("RenameCategoryResult", description="The result of renaming a category."),
]
MoveCategoryResult = Annotated[
    CategoryPayload | CategoryCycle | NotFound | Conflict,
    strawberry.union("MoveCategoryResult", description="The result of moving a category."),
]
DeleteCategoryResult = Annotated[
    DeletedPayload | CategoryNotEmpty | NotFound | Conflict,
    strawberry.union("DeleteCategoryResult", description="The result of deleting a category."),
]


def _parent_key(info: Info, global_id: str | None) -> DocumentId | None:
    return None if global_id is None else Kind.key_in(info.context, "Category", global_id)


@strawberry.type
class CategoryMutation:
    @mutation(role=MERCHANT, description="Creates a category. For a MERCHANT.")
    async def create_category(self, info: Info, input: CreateCategoryInput) -> CreateCategoryResult | None:
        created = await category_edits.create_category(
            info.context.db,
            name=input.name,
            slug=input.slug,
            parent_id=_parent_key(info, input.parent_id),
            description=input.description,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return CategoryPayload(category=as_type(Category, created))

    @mutation(role=MERCHANT, description="Renames a category, also in the breadcrumbs below it. For a MERCHANT.")
    async def rename_category(self, info: Info, input: RenameCategoryInput) -> RenameCategoryResult | None:
        renamed = await category_edits.rename_category(
            info.context.db,
            category_id=Kind.key_in(info.context, "Category", input.id),
            name=input.name,
            slug=input.slug,
            texts={} if input.description is None else {"description": input.description.value},
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return CategoryPayload(category=as_type(Category, renamed))

    @mutation(role=MERCHANT, description="Moves a category with everything below it. For a MERCHANT.")
    async def move_category(self, info: Info, input: MoveCategoryInput) -> MoveCategoryResult | None:
        moved = await category_edits.move_category(
            info.context.db,
            category_id=Kind.key_in(info.context, "Category", input.id),
            new_parent_id=_parent_key(info, input.new_parent_id),
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        category, former = moved
        return CategoryPayload(category=as_type(Category, category), moved={"from": former})

    @mutation(role=MERCHANT, description="Removes an empty category. For a MERCHANT.")
    async def delete_category(self, info: Info, input: DeleteCategoryInput) -> DeleteCategoryResult | None:
        parent = await category_edits.delete_category(
            info.context.db,
            category_id=Kind.key_in(info.context, "Category", input.id),
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return DeletedPayload.of(input.id, CATEGORY.name, [] if parent is None else [parent])
