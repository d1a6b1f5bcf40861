"""Clicks on served ads, one document a click, and the signed links that record them.

Each ad that a call serves gets a link of its own, which leads to this server. The link names the ad, the zone, the
user's profile and an expiry, and has a nonce; the server signs all of it. So nobody can record a click on an ad that
was not served, and the link never says where it leads: the server reads that from the creative.

A click is one insert whose `_id` is the nonce of the link. So a link records one click, however often and on however
many gateways it is followed at once, and no crash leaves a part. The nonce is derived from the call that served the ad:
a repeated call returns links with the same nonces. A link that has expired still leads on, but records nothing. A job
forgets clicks when their links have long expired.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NotRequired

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.parts import as_part
from portico.resolvers.together import both

from .ads import advertiser_of
from .profiles import CLICK, MAX_EVENTS, read_events

PATH = "/ads/clicks"
_VERSION = 1
# The version, the key of the ad, the key of the zone, the expiry in seconds since 1970, and the nonce.
_FACTS = struct.Struct(">B12s20sQ12s")
_PROFILE_BYTES = 32
_MAC_BYTES = 16
_MOST_CHARACTERS = 200
_DELETED_AT_ONCE = 5_000


class ClickDocument(Versioned):
    """A click. Its `_id` is the nonce of the link."""

    _id: str
    campaign_id: str
    ad_unit_id: str
    site_id: str
    zone_id: str
    at: datetime
    # The `_id` of the user's profile; missing if the ad was served without a user.
    profile: NotRequired[str]


CLICKS = CollectionSpec(
    "ads.clicks",
    document=ClickDocument,
    indexes=[
        # The latest clicks of a user.
        IndexModel(
            [("profile", ASCENDING), ("at", DESCENDING)], partialFilterExpression={"profile": {"$exists": True}}
        ),
        IndexModel([("at", ASCENDING)]),
    ],
    shard_key={"_id": "hashed"},
)


@dataclass(frozen=True)
class ClickLink:
    """What a link says.

    Args:     ad: the key of the ad.  zone: the key of the zone.  profile: the `_id` of the user's profile, or None.
              nonce: 24 hex digits.  expires_at: UTC; from then on the link records nothing.
    """

    ad: str
    zone: str
    profile: str | None
    nonce: str
    expires_at: datetime


class ClickLinks:
    """Signs links with the secret of the deployment. A resource of the domain.

    Args:     lasts: how long a link records a click.
    """

    def __init__(self, secret: str, lasts: timedelta) -> None:
        self._key = hmac.new(secret.encode(), b"click links of ads", hashlib.sha256).digest()
        self.lasts = lasts

    def sign(self, link: ClickLink) -> str:
        """Returns the link as text for a path: 92 or 135 characters."""
        expires = int(link.expires_at.replace(tzinfo=UTC).timestamp())
        keys = bytes.fromhex(link.ad), bytes.fromhex(link.zone)
        facts = _FACTS.pack(_VERSION, *keys, expires, bytes.fromhex(link.nonce))
        facts += bytes.fromhex(link.profile or "")
        return urlsafe_b64encode(facts + self._mac(facts)).rstrip(b"=").decode()

    def read(self, text: str) -> ClickLink | None:
        """Returns what a link says; None for a text that this deployment has not signed."""
        signed = _decoded(text)
        facts, mac = signed[:-_MAC_BYTES], signed[-_MAC_BYTES:]
        if len(facts) not in {_FACTS.size, _FACTS.size + _PROFILE_BYTES} or not hmac.compare_digest(
            mac, self._mac(facts)
        ):
            return None
        version, ad, zone, expires, nonce = _FACTS.unpack_from(facts)
        if version != _VERSION:
            return None
        at = datetime.fromtimestamp(expires, UTC).replace(tzinfo=None)
        profile = facts[_FACTS.size :].hex() or None
        return ClickLink(ad.hex(), zone.hex(), profile, nonce.hex(), at)

    def _mac(self, facts: bytes) -> bytes:
        return hmac.new(self._key, facts, hashlib.sha256).digest()[:_MAC_BYTES]


def _decoded(text: str) -> bytes:
    """Returns the bytes of a link; none if the text is not the only one that stands for its bytes."""
    if len(text) > _MOST_CHARACTERS or not text.isascii():
        return b""
    try:
        found = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Base64Error, ValueError):
        return b""
    return found if urlsafe_b64encode(found).rstrip(b"=").decode() == text else b""


async def record_click(
    db: Database, link: ClickLink, *, campaign_id: str, ad_unit_id: str, site_id: str, zone_id: str, now: datetime
) -> bool:
    """Records the click of a link. Returns False if it was recorded before, or if the link has expired.

    Writes:   ads.clicks; one insert.
    """
    if now >= link.expires_at:
        return False
    click: Document = {
        "_id": link.nonce,
        "campaign_id": campaign_id,
        "ad_unit_id": ad_unit_id,
        "site_id": site_id,
        "zone_id": zone_id,
        "at": now,
    }
    if link.profile is not None:
        click["profile"] = link.profile
    try:
        await db[CLICKS.name].insert_one(click)
    except DuplicateKeyError:
        return False
    return True


async def read_all_events(db: Database, profile_id: str) -> Sequence[Document] | None:
    """Returns the events of a user, latest first, at most 200; None if nothing is known about the user.

    They are those of the profile, and the clicks by links. Two commands, at the same time.
    """
    of_profile, by_links = await both(read_events(db, profile_id), _find_events(db, profile_id))
    if of_profile is None and not by_links:
        return None
    return sorted([*(of_profile or ()), *by_links], key=lambda one: one["at"], reverse=True)[:MAX_EVENTS]


def chosen(events: Sequence[Document], kind: str, advertiser: str, last: int) -> Sequence[Document]:
    """Returns the first of these events with the advertiser's ads, at most `last`."""
    found = [one for one in events if one["kind"] == kind and advertiser_of(one["campaign_id"]) == advertiser]
    return found[:last]


async def read_chosen(db: Database, profile_id: str, kind: str, advertiser: str, last: int) -> Sequence[Document]:
    """Returns what `chosen` returns of the events of a user, as a part of a run."""

    async def read(db: Database) -> Sequence[Document]:
        return chosen(await read_all_events(db, profile_id) or (), kind, advertiser, last)

    return await as_part(db, read)


async def is_known(db: Database, profile_id: str) -> bool:
    """Returns whether anything is known about a user, as a part of a run."""

    async def read(db: Database) -> bool:
        return await read_all_events(db, profile_id) is not None

    return await as_part(db, read)


async def _find_events(db: Database, profile_id: str) -> Sequence[Document]:
    """Returns the clicks of a user by links, as events of a profile, latest first."""
    found = db[CLICKS.name].find({"profile": profile_id}, sort=[("at", DESCENDING)], limit=MAX_EVENTS)
    return [{**click, "kind": CLICK} async for click in found]


async def forget_clicks(db: Database, *, now: datetime, kept: timedelta) -> int:
    """Deletes the oldest clicks that are older than `kept`, a bounded number. Returns how many.

    Args:     kept: longer than links last, or a link could record a second click.
    """
    collection, old = db[CLICKS.name], {"at": {"$lte": now - kept}}
    found = await collection.find(old, {"_id": 1}, sort=[("at", ASCENDING)], limit=_DELETED_AT_ONCE).to_list()
    if not found:
        return 0
    return (await collection.delete_many({"_id": {"$in": [one["_id"] for one in found]}})).deleted_count
