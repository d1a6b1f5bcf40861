"""The mutation that sets what an ad shows."""

from typing import Annotated

import strawberry

from portico.resolvers.ads import creatives, images
from portico.resolvers.ads.counters import CountedAd
from portico.resolvers.ads.creatives import Creative
from portico.resolvers.ads.images import Image, ImageRules
from portico.resolvers.ads.zones import MAX_SHOWN, keys_with
from portico.resolvers.errors import UnacceptableFile
from portico.schema.context import Context, Info
from portico.schema.errors import Conflict, InvalidInput
from portico.schema.fields import as_document, as_type, costs
from portico.schema.files import Upload
from portico.schema.inputs import idempotency_key
from portico.schema.mutations import mutation

from .advertisers import ADVERTISER
from .creatives import AdCreative
from .zones import DEFAULT_SHOWN, AdZone, FirstZones, require_first, shown_zones


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

    @strawberry.field(
        metadata=costs(length=MAX_SHOWN, each="first"),
        description="Some of the zones that have the ad, as they are now.",
    )
    async def changed_zones(self, info: Info, first: FirstZones = DEFAULT_SHOWN) -> list[AdZone]:
        require_first(first)
        ad = CountedAd.of(as_document(self.creative))
        return await shown_zones(info, await keys_with(info.context.db, ad, limit=first))


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
