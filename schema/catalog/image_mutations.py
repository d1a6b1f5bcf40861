"""The mutations that add and remove images of products and categories."""

from collections.abc import Mapping
from typing import Annotated, Any

import strawberry

from portico.resolvers.catalog import image_edits
from portico.resolvers.catalog.image_edits import ImageRules, Owner
from portico.resolvers.documents import Document
from portico.resolvers.errors import UnacceptableFile
from portico.schema.context import Info
from portico.schema.errors import Conflict, InvalidInput, NotFound
from portico.schema.fields import as_type, kept_privately
from portico.schema.files import Upload
from portico.schema.inputs import idempotency_key
from portico.schema.kinds import Kind, decode_id, split_id
from portico.schema.mutations import mutation
from portico.schema.reading import load_one

from .categories import CATEGORY, Category
from .merchants import MERCHANT
from .products import PRODUCT, Product


@strawberry.input(description="A new image. Send it by the GraphQL multipart request specification.")
class AddImageInput:
    of_id: strawberry.ID = strawberry.field(description="The product or the category.")
    file: Upload = strawberry.field(description="A JPEG, PNG, GIF, WebP or AVIF.")
    alt: str = strawberry.field(
        default="", description="What the image shows, for people who do not see it: up to 500 characters."
    )
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="The image to remove.")
class RemoveImageInput:
    of_id: strawberry.ID = strawberry.field(description="The product or the category.")
    image_id: strawberry.ID = strawberry.field(description="The `id` of the image.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The product or the category after the write; the other one is null.")
class ImagesPayload:
    owner: strawberry.Private[Document | None] = kept_privately()

    @strawberry.field(description="The product; null if the image is that of a category.")
    async def product(self, info: Info) -> Product | None:
        key = (self.owner or {}).get("sku")
        return None if key is None else as_type(Product, await load_one(info, PRODUCT, key))

    @strawberry.field(description="The category; null if the image is that of a product.")
    async def category(self, info: Info) -> Category | None:
        key = (self.owner or {}).get("category")
        return None if key is None else as_type(Category, await load_one(info, CATEGORY, key))


AddImageResult = Annotated[
    ImagesPayload | UnacceptableFile | NotFound | InvalidInput | Conflict,
    strawberry.union("AddImageResult", description="The result of adding an image."),
]
RemoveImageResult = Annotated[
    ImagesPayload | NotFound,
    strawberry.union("RemoveImageResult", description="The result of removing an image."),
]


def _owner(info: Info, global_id: str) -> Owner:
    """Returns the product or the category with this id. Raises NotFound."""
    try:
        kind, key = decode_id(info.context, global_id)
    except ValueError:
        raise NotFound(PRODUCT.name, message="The id is not that of a product or a category.") from None
    if kind.name not in {PRODUCT.name, CATEGORY.name}:
        raise NotFound(PRODUCT.name, message="The id is not that of a product or a category.")
    return Owner(kind.name, key)


def _payload(owner: Mapping[str, Any]) -> ImagesPayload:
    found = {"sku": owner["sku"]} if "sku" in owner else {"category": owner["_id"]}
    return ImagesPayload(owner=found)


@strawberry.type
class ImageMutation:
    @mutation(
        role=MERCHANT,
        description="Adds an image to a product or a category, behind its other images. If it has the same file, "
        "changes its `alt`. For a MERCHANT.",
    )
    async def add_image(self, info: Info, input: AddImageInput) -> AddImageResult | None:
        owner = await image_edits.add_image(
            info.context.db,
            _owner(info, input.of_id),
            alt=input.alt.strip(),
            file=input.file.read(),
            rules=info.context.resources.of(ImageRules),
            now=info.context.now,
        )
        return _payload(owner)

    @mutation(
        role=MERCHANT,
        description="Removes an image of a product or a category. It also succeeds if there is no such image any more. "
        "For a MERCHANT.",
    )
    async def remove_image(self, info: Info, input: RemoveImageInput) -> RemoveImageResult | None:
        try:
            kind, key = split_id(input.image_id)
            image = Kind.document_id(key)
        except ValueError:
            raise NotFound("Image", message="The id is not that of an image.") from None
        if kind != "Image":
            raise NotFound("Image", message="The id is not that of an image.")
        owner = await image_edits.remove_image(info.context.db, _owner(info, input.of_id), image, now=info.context.now)
        return _payload(owner)
