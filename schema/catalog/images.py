"""The images of products and categories. The mutations are in `image_mutations`."""

from collections.abc import Mapping
from typing import Annotated, Any

import strawberry

from portico.resolvers.catalog import images
from portico.resolvers.errors import InvalidInput
from portico.resolvers.pictures import WIDTHS
from portico.schema.fields import as_type, computed, reads, stored
from portico.schema.inputs import described
from portico.schema.parts import part_id

_NEEDS = ("_id", "content_type")


@strawberry.type(description="An image of a product or a category.")
class Image:
    id: strawberry.ID = part_id("Image", lambda image: image["_id"], "_id")
    url: str = computed(
        images.path_of, *_NEEDS, description="The path of the bytes on this server. Other bytes have another path."
    )
    content_type: str = stored(description="The media type, determined from the bytes.")
    width: int = stored(description="Pixels, as the image is displayed.")
    height: int = stored(description="Pixels, as the image is displayed.")
    alt: str = stored(description="What the image shows, for people who do not see it. Empty for a mere decoration.")

    @reads(*_NEEDS, "width", description="The path of a thumbnail. The server makes it at the first request.")
    @staticmethod
    def thumbnail_url(
        root: strawberry.Parent[Mapping[str, Any]],
        width: Annotated[int, described("Pixels, 16 or more. It is rounded down to one of a few widths.")] = 320,
    ) -> str:
        if width < WIDTHS[0]:
            text = f"`width` must be {WIDTHS[0]} or more; got {width}."
            raise InvalidInput(text, "width", code=InvalidInput.OUT_OF_RANGE, least=WIDTHS[0])
        return images.path_of_thumbnail(root, width)


def images_field(of: str) -> Any:
    """Declares the field `images` of products or categories."""

    def read_images(
        root: strawberry.Parent[Mapping[str, Any]],
        first: Annotated[int, described(f"How many: 1 to {images.MAX_IMAGES}.")] = 5,
    ) -> list[Image]:
        return as_type(list[Image], images.first_images(root, first))

    declared = reads(
        "images",
        length=images.MAX_IMAGES,
        each="first",
        description=f"The images of the {of}, the main one first. At most {images.MAX_IMAGES}.",
    )
    return declared(staticmethod(read_images))
