"""Profiles of browsers, for advertisers."""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import strawberry

from portico.resolvers.ads import clicks, profiles
from portico.resolvers.documents import Document
from portico.resolvers.errors import InvalidInput
from portico.schema.context import Info
from portico.schema.fields import as_type, costs, kept_privately, stored
from portico.schema.inputs import described
from portico.schema.kinds import Kind
from portico.schema.parts import digest_of

from .advertisers import ADVERTISER
from .choosing import profile_id_of


@strawberry.enum(description="What happened with an ad.")
class AdEventKind(Enum):
    IMPRESSION = strawberry.enum_value("IMPRESSION", description="A user has seen it.")
    CLICK = strawberry.enum_value("CLICK", description="A user has clicked on it.")


@strawberry.type(description="Something that happened with an ad.")
class AdEvent:
    kind: AdEventKind = stored(description="What happened.")
    at: datetime = stored(description="When it happened.")
    campaign_id: str = stored(description="The campaign of the ad.")
    ad_unit_id: str = stored(description="The ad unit of the campaign.")
    site_id: str = stored(description="The site on which it happened.")
    zone_id: str = stored(description="The zone of the site.")


@strawberry.type(description="What is known about a browser.")
class AdProfile:
    key: strawberry.Private[str]
    # None in a live query, which reads again what a field shows, and runs only if that has changed.
    recorded: strawberry.Private[Any]

    @strawberry.field(description="Unique among all objects. Only `adProfile` finds the profile: `node` does not.")
    def id(self) -> strawberry.ID:
        return strawberry.ID(Kind.encode_id("AdProfile", digest_of(self.key)))

    @strawberry.field(
        metadata=costs(length=profiles.MAX_EVENTS, each="last"),
        description="The events of an advertiser's ads, latest first. The latest 200 events of the browser are kept, "
        "for as many days as the deployment has set.",
    )
    async def events(
        self,
        info: Info,
        advertiser: Annotated[str, described("The advertiser: the part of a campaign id before the colon.")],
        kind: Annotated[AdEventKind, described("What happened.")],
        last: Annotated[int, described("The most events, 1 to 200.")] = 20,
    ) -> list[AdEvent]:
        if not 1 <= last <= profiles.MAX_EVENTS:
            text = f"`last` must be between 1 and {profiles.MAX_EVENTS}; got {last}."
            bounds: Any = {"code": InvalidInput.OUT_OF_RANGE, "least": 1, "most": profiles.MAX_EVENTS}
            raise InvalidInput(text, "last", **bounds)
        if self.recorded is None:
            return as_type(
                list[AdEvent], await clicks.read_chosen(info.context.db, self.key, kind.name, advertiser, last)
            )
        return as_type(list[AdEvent], clicks.chosen(self.recorded, kind.name, advertiser, last))


async def _profile(info: Info, key: str) -> AdProfile | None:
    if info.context.is_live:
        return AdProfile(key=key, recorded=None) if await clicks.is_known(info.context.db, key) else None
    recorded = await clicks.read_all_events(info.context.db, key)
    return None if recorded is None else AdProfile(key=key, recorded=recorded)


def seen_by(key: str | None) -> Document | None:
    """Returns what `ShowsProfile` needs of a call for the browser with this profile."""
    return None if key is None else {"by": key}


@strawberry.type
class ShowsProfile:
    """A payload of a call that adds events to the profile of a browser."""

    seen: strawberry.Private[Document | None] = kept_privately()

    @strawberry.field(
        description="What is now known about the browser. Null if the call names none, and if you are no ADVERTISER."
    )
    async def profile(self, info: Info) -> AdProfile | None:
        if self.seen is None or not info.context.has_role(ADVERTISER):
            return None
        return await _profile(info, self.seen["by"])


@strawberry.type
class ProfileQuery:
    @strawberry.field(
        description="What is known about a browser; null if it has not been seen, or was forgotten. For an ADVERTISER."
    )
    async def ad_profile(
        self, info: Info, user_id: Annotated[str, described("The browser, as it was given to `serveAds`.")]
    ) -> AdProfile | None:
        info.context.require_caller(ADVERTISER)
        return await _profile(info, profile_id_of(info.context, user_id))
