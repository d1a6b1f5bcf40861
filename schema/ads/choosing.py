"""Choices of ads, which count nothing."""

import asyncio
from collections.abc import Mapping
from enum import Enum
from random import SystemRandom
from typing import Annotated, Any

import strawberry

from portico.resolvers.ads import choosing, profiles
from portico.resolvers.ads.ads import MAX_CHOSEN, require_limit, require_page_keywords
from portico.resolvers.ads.choosing import Choice
from portico.resolvers.ads.pseudonyms import Pseudonyms
from portico.resolvers.ads.zone_reads import Zones
from portico.resolvers.ads.zones import MAX_ADS
from portico.resolvers.errors import InvalidInput
from portico.schema.context import Context, Info
from portico.schema.fields import Source, as_type, computed, costs, stored
from portico.schema.inputs import described

from .prices import forbidden, require_prices_if_selected, sees_prices, shown_to
from .zones import Ad, SiteId, ZoneId

RNG = SystemRandom()
# What each keyword of a page adds to the cost of a choice: it is folded, and looked up among the ads.
KEYWORD_COST = 0.5


@strawberry.enum(description="Why an ad was not chosen: the first of these reasons that applies.")
class AdRejection(Enum):
    FREQUENCY_CAP = strawberry.enum_value(
        "FREQUENCY_CAP", description="The user has seen it in this day (UTC) as often as its daily cap allows."
    )
    EXHAUSTED = strawberry.enum_value(
        "EXHAUSTED", description="Its impressions are used up, or other pages are just taking the last ones."
    )
    KEYWORDS = strawberry.enum_value("KEYWORDS", description="None of the page's keywords is one of its own.")
    OUTBID = strawberry.enum_value("OUTBID", description="Other ads pay more, or suit the page better.")


@strawberry.type(description="An ad that was not chosen.")
class RejectedAd:
    ad: Ad = stored(description="The ad.")
    reason: AdRejection = stored(description="Why it was not chosen.")


def rejected_of(choice: Choice) -> list[dict[str, Any]]:
    """Returns the ads that a choice did not choose, as documents of `RejectedAd`."""
    return [one._asdict() for one in choice.rejected()]


def _rejected(source: Source) -> list[dict[str, Any]]:
    if source["choice"] is None:
        raise forbidden()
    return rejected_of(source["choice"])


@strawberry.type(description="The best ads of a zone for a page view.")
class AdChoice:
    ads: list[Ad] = stored(length=MAX_CHOSEN, description="The chosen ads, best first. Empty if none may be shown.")
    rejected: list[RejectedAd] = computed(
        _rejected,
        "choice",
        length=MAX_ADS,
        description="Every other ad of the zone, best first, and why it was not chosen. "
        "Worked out only if you select it, from the same state as the choice. For an ADVERTISER or a SERVICE; for "
        "everybody else it is an error.",
    )


def folds_of(context: Context) -> dict[str, str]:
    """Returns the folded form of each keyword that a field of the operation has folded."""
    return context.slot(folds_of, dict)


def profile_id_of(context: Context, user_id: str) -> str:
    """Returns the `_id` of the user's profile. Raises InvalidInput."""
    return context.resources.of(Pseudonyms).of(user_id, "user_id")


@strawberry.type
class ChoosingQuery:
    @strawberry.field(
        description="The best ads of a zone for a page view: the dearest ones; with keywords, the best by price and "
        "relevance. Equal ones come in random order. Leaves out ads that this user has seen as often as "
        "their daily caps allow, and ads whose impressions are used up. It is a preview, which counts nothing.",
        metadata=costs(extra=100, weights={"keywords": KEYWORD_COST}),
    )
    async def choose_ads(
        self,
        info: Info,
        site_id: SiteId,
        zone_id: ZoneId,
        user_id: Annotated[
            str | None, described("The browser: any text, up to 1,000 characters. Without it, no daily cap applies.")
        ] = None,
        keywords: Annotated[
            list[str],
            described("The keywords of the page, up to 10,000 of up to 100 characters, 100,000 characters together."),
        ] = [],  # noqa: B006 - nothing changes it, and the schema shows this default
        limit: Annotated[int, described("The most ads to choose, 1 to 100.")] = 1,
    ) -> AdChoice | None:
        context = info.context
        # Ads of equal scores come in random order.
        context.vary()
        require_prices_if_selected(info, "AdChoice")
        with InvalidInput.collect() as check:
            words = check(require_page_keywords, keywords, "keywords", folds=folds_of(context))
            check(require_limit, limit, "limit")
            profile_id = None if user_id is None else check(profile_id_of, context, user_id)
        zone, counts = await asyncio.gather(
            context.resources.of(Zones).read(context.db, site_id, zone_id), _counts_of(context, profile_id)
        )
        choice = choosing.choose(zone, counts, keywords=words, limit=limit, rng=RNG)
        shown = {"ads": shown_to(context, choice.ads), "choice": choice if sees_prices(context) else None}
        return as_type(AdChoice, shown)


async def _counts_of(context: Context, profile_id: str | None) -> Mapping[str, int]:
    return {} if profile_id is None else await profiles.shown_on(context.db, profile_id, now=context.now)
