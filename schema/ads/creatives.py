"""Creatives: what an ad shows, and the mutation that sets it."""

from typing import Annotated

import strawberry

from portico.resolvers.ads import creatives, images
from portico.resolvers.ads.creatives import CREATIVES, Creative
from portico.resolvers.ads.images import Image, ImageRules
from portico.resolvers.documents import Document
from portico.resolvers.errors import UnacceptableFile
from portico.schema.context import Context, Info
from portico.schema.errors import Conflict, InvalidInput
from portico.schema.fields import Source, as_type, computed, stored
from portico.schema.files import Upload
from portico.schema.inputs import idempotency_key
from portico.schema.mutations import mutation
from portico.schema.nodes import Node, everybody, node_id
from portico.schema.reading import document_kind

from .advertisers import ADVERTISER


def _parse_key(text: str) -> str:
    """Parses the key of an ad. Raises ValueError."""
    if len(bytes.fromhex(text)) != creatives.KEY_BYTES or text != text.lower():
        raise ValueError(text)
    return text


AD_CREATIVE = document_kind("AdCreative", CREATIVES, parse=_parse_key, visible_to=everybody)


def _size(creative: Source) -> Document | None:
    """Returns the size that the advertiser gave, or that of the image."""
    shown: Document | None = creative.get("size") or creative.get("image")
    return None if shown is None else {"width": shown["width"], "height": shown["height"]}


def _image_url(creative: Source) -> str | None:
    image = creative.get("image")
    return None if image is None else images.path_of(image)


@strawberry.type(description="The size at which an ad is shown.")
class AdSize:
    width: int = stored(description="Pixels.")
    height: int = stored(description="Pixels.")


@strawberry.type(description="What an ad shows, in all zones.")
class AdCreative(Node):
    id: strawberry.ID = node_id("AdCreative", "_id")
    campaign_id: str = stored(description="The campaign of the ad.")
    ad_unit_id: str = stored(description="The ad unit of the campaign.")
    text: str = stored(description="What the ad says. It is also the text that stands for its image.")
    link: str = stored(
        description="Where the ad leads: an http or https URL. A page uses `Ad.clickUrl`, which records the click."
    )
    image_url: str | None = computed(
        _image_url,
        "image.checksum",
        "image.content_type",
        description="The path of the image on this server, which changes with the image. Null for an ad that is text "
        "alone.",
    )
    size: AdSize | None = computed(
        _size,
        "size",
        "image.width",
        "image.height",
        description="The size at which the ad is shown: that of the image, unless the advertiser gave another. Null "
        "for a text without a size.",
    )


@strawberry.input(description="The size at which an ad is shown.")
class AdSizeInput:
    width: int = strawberry.field(description="1 to 10,000 pixels.")
    height: int = strawberry.field(description="1 to 10,000 pixels.")


@strawberry.input(description="What an ad shows. To send an image, use the GraphQL multipart request specification.")
class SetAdCreativeInput:
    campaign_id: str = strawberry.field(description="The campaign of the ad, as `advertiser:campaign`.")
    ad_unit_id: str = strawberry.field(description="The ad unit of the campaign, up to 200 characters.")
    text: str = strawberry.field(description="What the ad says, 1 to 500 characters.")
    link: str = strawberry.field(description="Where the ad leads: an http or https URL, up to 2,000 characters.")
    image: strawberry.Maybe[Upload | None] = strawberry.field(
        description="A JPEG, PNG, GIF, WebP or AVIF, up to 1,000,000 bytes. Left out, the ad keeps its image; null "
        "removes it."
    )
    size: AdSizeInput | None = strawberry.field(
        default=None, description="The size at which the ad is shown; by default that of the image."
    )
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="What the ad shows after the write.")
class AdCreativePayload:
    creative: AdCreative = strawberry.field(description="The creative.")


SetAdCreativeResult = Annotated[
    AdCreativePayload | InvalidInput | UnacceptableFile | Conflict,
    strawberry.union("SetAdCreativeResult", description="The result of setting what an ad shows."),
]


@strawberry.type
class CreativeMutation:
    @mutation(
        role=ADVERTISER,
        description="Sets what an ad shows in all zones, in place of what it has shown. For an ADVERTISER.",
    )
    async def set_ad_creative(self, info: Info, input: SetAdCreativeInput) -> SetAdCreativeResult | None:
        context = info.context
        given = creatives.require_creative(
            Creative(
                campaign_id=input.campaign_id,
                ad_unit_id=input.ad_unit_id,
                text=input.text,
                link=input.link,
                size=None if input.size is None else (input.size.width, input.size.height),
                keeps_image=input.image is None,
            )
        )
        image = await _received(context, input)
        stored_one = await creatives.set_creative(context.db, given.with_image(image), **context.operation)
        return AdCreativePayload(creative=as_type(AdCreative, stored_one))


async def _received(context: Context, given: SetAdCreativeInput) -> Image | None:
    """Returns the image of the input. Raises UnacceptableFile."""
    upload = None if given.image is None else given.image.value
    return None if upload is None else await images.receive(upload.read(), context.resources.of(ImageRules))
