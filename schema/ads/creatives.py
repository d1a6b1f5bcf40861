"""Creatives: what an ad shows."""

import strawberry

from portico.resolvers.ads import creatives, images
from portico.resolvers.ads.creatives import CREATIVES
from portico.resolvers.documents import Document
from portico.schema.fields import Source, computed, stored
from portico.schema.kinds import Kind, Node, node_id


def _parse_key(text: str) -> str:
    """Parses the key of an ad. Raises ValueError."""
    if len(bytes.fromhex(text)) != creatives.KEY_BYTES or text != text.lower():
        raise ValueError(text)
    return text


AD_CREATIVE = Kind.of("AdCreative", CREATIVES, parse=_parse_key, visible_to=Kind.everybody)


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
