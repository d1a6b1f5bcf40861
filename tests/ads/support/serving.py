"""Served ads and recorded events for tests, through the public schema."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from portico.resolvers.ads.ads import ad_key
from portico.resolvers.ads.claiming import Counters
from portico.resolvers.ads.pseudonyms import Pseudonyms
from portico.resolvers.documents import Document
from portico.schema.roles import Role
from tests.ads.support.ads import SITE, ZONE, Given
from tests.support.harness import GatewayClient

_AD = "campaignId adUnitId keywords"
SERVE = f"""
mutation ($input: ServeAdsInput!, $why: Boolean! = false) {{
  serveAds(input: $input) {{
    __typename ... on UserError {{ message }} ... on InvalidInput {{ path }}
    ... on ServedAdsPayload {{
      ads {{ {_AD} ecpm @include(if: $why) }} rejected @include(if: $why) {{ ad {{ {_AD} ecpm }} reason }}
    }}
  }}
}}
"""
RECORD = """
mutation ($input: AdEventInput!) {
  recordAdEvent(input: $input) {
    __typename ... on UserError { message } ... on InvalidInput { path } ... on AdEventPayload { recorded }
  }
}
"""
PROFILE = """
query ($user: String!, $advertiser: String! = "acme", $kind: AdEventKind! = IMPRESSION, $last: Int! = 20) {
  adProfile(userId: $user) {
    events(advertiser: $advertiser, kind: $kind, last: $last) { kind at campaignId adUnitId siteId zoneId }
  }
}
"""
JOBS = ("settle-ad-claims",)


def view(user: str | None = "robin", zone: str = ZONE, **fields: Any) -> Given:
    """A `ServeAdsInput`."""
    return {"siteId": SITE, "zoneId": zone, "userId": user, **fields}


def seen(kind: str = "IMPRESSION", user: str = "robin", **fields: Any) -> Given:
    """An `AdEventInput`."""
    given = {"kind": kind, "userId": user, "siteId": SITE, "zoneId": ZONE}
    return {**given, "campaignId": "acme:spring", "adUnitId": "banner", **fields}


async def serve(
    gateway: GatewayClient, given: Given | None = None, *, why: bool = False, as_service: bool = False
) -> Any:
    """Serves ads to an anonymous caller. With `why` or `as_service`, to a service. Returns the payload."""
    variables = {"input": given or view(), "why": why}
    token = gateway.token("page", [Role.SERVICE]) if why or as_service else None
    # A busy machine refuses calls that have waited for too long. Then nothing was executed, so a client repeats them.
    answered = await gateway.ask(SERVE, variables, token=token)
    if answered.codes == ["OVERLOADED"]:
        await asyncio.sleep(int(answered.headers["retry-after"]))
        return await serve(gateway, given, why=why, as_service=as_service)
    answer = answered.data
    assert answer["serveAds"]["__typename"] == "ServedAdsPayload", answer
    return answer["serveAds"]


async def shown(gateway: GatewayClient, given: Given | None = None) -> list[str]:
    """Serves ads. Returns their ad units."""
    return [one["adUnitId"] for one in (await serve(gateway, given))["ads"]]


async def record(gateway: GatewayClient, given: Given) -> bool:
    """Records an event. Returns whether it was recorded."""
    answer = (await gateway.data(RECORD, {"input": given}, token=None))["recordAdEvent"]
    assert answer["__typename"] == "AdEventPayload", answer
    return bool(answer["recorded"])


async def profile(gateway: GatewayClient, user: str = "robin", **given: Any) -> Any:
    """Returns the events of a user, or None."""
    found = (await gateway.data(PROFILE, {"user": user, **given}))["adProfile"]
    return None if found is None else found["events"]


def pseudonym(gateway: GatewayClient, user: str = "robin") -> str:
    return gateway.state.resources.of(Pseudonyms).of(user)


async def stored_profile(gateway: GatewayClient, user: str = "robin") -> Document:
    return await gateway.stored("ads.profiles", {"_id": pseudonym(gateway, user)})


async def counts(gateway: GatewayClient, user: str = "robin") -> dict[str, int]:
    """Returns what the profile of a user counts today, by the keys of ads; nothing without a profile."""
    found = await gateway.db["ads.profiles"].find_one({"_id": pseudonym(gateway, user)})
    return {} if found is None else dict(found["shown"])


async def counted(gateway: GatewayClient, campaign: str = "acme:spring", unit: str = "banner") -> int:
    """Returns the counted impressions of an ad, after all claims have ended."""
    await settled(gateway)
    found = await gateway.db["ads.counters"].find_one({"_id": ad_key(campaign, unit)})
    assert found is None or found["claims"] == []
    return 0 if found is None else int(found["shown"])


async def settled(*gateways: GatewayClient) -> None:
    """Waits for what the gateways do after their answers."""
    for gateway in gateways:
        await gateway.state.resources.of(Counters).close()


async def settle_old_claims(gateway: GatewayClient, *, seconds: float = 11) -> None:
    await gateway.run_jobs(*JOBS, seconds=seconds)


def units_of(answers: Sequence[Any]) -> Counter[str]:
    """Returns how often each ad unit was served."""
    return Counter(one["adUnitId"] for answer in answers for one in answer["ads"])
