"""Photos: their fields, and the mutations that upload and replace them."""

from datetime import datetime
from typing import Annotated

import strawberry

from portico.resolvers.content import photo_uploads as uploads
from portico.resolvers.content import photos
from portico.resolvers.content.nodes import NodeDocument
from portico.resolvers.content.photo_uploads import UploadRules
from portico.resolvers.content.refusals import PhotoLocked
from portico.resolvers.errors import SlugTaken, UnacceptableFile
from portico.resolvers.pictures import UNKNOWN_TYPE, WIDTHS
from portico.schema.context import Info
from portico.schema.errors import Conflict, InvalidInput, NotFound
from portico.schema.fields import as_document, as_type, computed, reads, stored
from portico.schema.files import Upload
from portico.schema.inputs import described, idempotency_key
from portico.schema.mutations import mutation
from portico.schema.roles import Role
from portico.schema.scalars import BigInt

from .creation import SLUG, TAGS, content_key, new_node
from .edits import EditConflict
from .rows import CONTENT_EDGE, TAGGED_EDGE, content_edge_of, tagged_edge_of
from .types import ContentEdge, ContentNode, Tag

_URL_NEEDS = ("_id", "slug", "detail.file", "detail.checksum", "detail.content_type")


@strawberry.type(
    description="A picture. Until its first upload is complete, only EDITORs see it, and it has no URL and no size."
)
class Photo(ContentNode):
    url: str = computed(
        photos.path_of_bytes,
        *_URL_NEEDS,
        description="The path of the bytes on this server. It changes with the bytes. Empty if there are none yet.",
    )
    content_type: str = stored(
        "detail.content_type", default=UNKNOWN_TYPE, description="The media type, determined from the bytes."
    )
    length: BigInt = stored("detail.length", default=0, description="The number of bytes.")
    width: int = stored("detail.width", default=0, description="Pixels, as the photo is displayed.")
    height: int = stored("detail.height", default=0, description="Pixels, as the photo is displayed.")
    checksum: str = stored("detail.checksum", default="", description="SHA-256 of the bytes, in hexadecimal.")
    locked: datetime | None = stored(
        "detail.locked", description="When an upload in progress began; null if there is none."
    )

    @reads(
        *_URL_NEEDS,
        "detail.width",
        description="The path of a thumbnail. The server makes it at the first request.",
    )
    @staticmethod
    def thumbnail_url(
        root: strawberry.Parent[NodeDocument],
        width: Annotated[int, described("Pixels, 16 or more. It is rounded down to one of a few widths.")] = 320,
    ) -> str:
        if width < WIDTHS[0]:
            text = f"`width` must be {WIDTHS[0]} or more; got {width}."
            raise InvalidInput(text, "width", code=InvalidInput.OUT_OF_RANGE, least=WIDTHS[0])
        return photos.path_of_thumbnail(root, width)


@strawberry.input(description="A new photo. Send it by the GraphQL multipart request specification.")
class UploadPhotoInput:
    gallery_id: strawberry.ID = strawberry.field(description="A section of kind GALLERY.")
    slug: str = strawberry.field(description=SLUG)
    title: str = strawberry.field(description="For display.")
    tags: list[str] = strawberry.field(default_factory=list, description=TAGS)
    file: Upload = strawberry.field(description="A JPEG, PNG, GIF, WebP or AVIF.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="New bytes for a photo. It keeps the old ones until the upload is complete.")
class ReplacePhotoInput:
    id: strawberry.ID = strawberry.field(description="The photo.")
    nonce: strawberry.ID = strawberry.field(description="The `nonce` that the photo was read with.")
    file: Upload = strawberry.field(description="A JPEG, PNG, GIF, WebP or AVIF.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The photo after the write.")
class PhotoPayload:
    photo: Photo = strawberry.field(description="The photo.")

    @strawberry.field(description=CONTENT_EDGE)
    def content_edge(self, info: Info) -> ContentEdge | None:
        return content_edge_of(info.context, as_document(self.photo))

    @strawberry.field(description=TAGGED_EDGE)
    def tagged_edge(self, info: Info, tag: Tag) -> ContentEdge | None:
        return tagged_edge_of(info.context, as_document(self.photo), tag)


UploadPhotoResult = Annotated[
    PhotoPayload | SlugTaken | UnacceptableFile | NotFound | InvalidInput | Conflict,
    strawberry.union("UploadPhotoResult", description="The result of uploading a photo."),
]
ReplacePhotoResult = Annotated[
    PhotoPayload | EditConflict | PhotoLocked | UnacceptableFile | NotFound,
    strawberry.union("ReplacePhotoResult", description="The result of replacing a photo."),
]


@strawberry.type
class PhotoMutation:
    @mutation(role=Role.EDITOR, description="Uploads a photo to a gallery. For an EDITOR.")
    async def upload_photo(self, info: Info, input: UploadPhotoInput) -> UploadPhotoResult | None:
        uploaded = await uploads.upload_photo(
            info.context.db,
            node=new_node(
                info,
                slug=input.slug,
                title=input.title,
                parent_id=input.gallery_id,
                tags=input.tags,
                parent_name="gallery_id",
            ),
            file=input.file.read(),
            rules=info.context.resources.of(UploadRules),
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return PhotoPayload(photo=as_type(Photo, uploaded))

    @mutation(role=Role.EDITOR, description="Replaces the bytes of a photo. For an EDITOR.")
    async def replace_photo(self, info: Info, input: ReplacePhotoInput) -> ReplacePhotoResult | None:
        replaced = await uploads.replace_photo(
            info.context.db,
            photo_id=content_key(info.context, input.id),
            nonce=input.nonce,
            file=input.file.read(),
            rules=info.context.resources.of(UploadRules),
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return PhotoPayload(photo=as_type(Photo, replaced))
