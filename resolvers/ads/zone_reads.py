"""Zones as choices read them: parsed once for each change, and kept in the process.

A process keeps the zones that it has read, prepared for choices: ads by price, and an index of keywords. MongoDB sends
the ads only if the nonce of the zone has changed. The server draws the nonce with each update, so a process that read a
zone during a failover cannot take another state for the one that it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.lru import Lru

from .ads import folded, key_of_ad
from .counters import smaller
from .zones import ZONES, live_ads, zone_key

# The most zones, ads and keywords together that a process keeps: some tens of megabytes.
MAX_KEPT = 200_000


@dataclass(frozen=True, slots=True)
class ParsedZone:
    """The live ads of a zone, prepared for choices. Immutable: concurrent choices share it.

    Ads are named by their places in `ads`, which are in order of price. Their `zone` is the key of the zone, and their
    `key` is in `keys`, too. Their `cap` is the smaller one of their total cap and the cap of the ad. `by_price` has the
    places that are not exhausted, with the price of each group, dearest first. `by_keyword` has those of each folded
    keyword. `words` has the folded keywords of every place.
    """

    nonce: Any
    ads: Sequence[Document]
    keys: Sequence[str]
    words: Sequence[frozenset[str]]
    by_price: Sequence[tuple[int, Sequence[int]]]
    by_keyword: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, zone: Document) -> ParsedZone:
        ads = tuple(
            {**ad, "zone": zone["_id"], "key": key_of_ad(ad), "cap": smaller(ad["total_cap"], ad.get("cap"))}
            for ad in live_ads(zone)
        )
        words = tuple(folded(ad["keywords"]) for ad in ads)
        able = [(ad["ecpm"], place) for place, ad in enumerate(ads) if not is_exhausted(ad)]
        by_keyword: dict[str, list[int]] = {}
        for _, place in able:
            for keyword in words[place]:
                by_keyword.setdefault(keyword, []).append(place)
        return cls(
            nonce=zone.get("nonce"),
            ads=ads,
            keys=tuple(ad["key"] for ad in ads),
            words=words,
            by_price=tuple(
                (price, tuple(place for _, place in group)) for price, group in groupby(able, key=itemgetter(0))
            ),
            by_keyword=by_keyword,
        )

    @property
    def size(self) -> int:
        """The zone itself, its ads and their keywords."""
        return 1 + len(self.ads) + sum(map(len, self.words))


EMPTY = ParsedZone.of({})


def is_exhausted(ad: Document) -> bool:
    """Returns whether the ad has had all impressions that its cap allows."""
    return ad["cap"] is not None and ad["shown"] >= ad["cap"]


class Zones:
    """The zones that this process has read, the latest ones. A resource of the domain.

    Every read asks the database, but an unchanged zone is neither sent nor parsed again.
    """

    def __init__(self, most: int = MAX_KEPT) -> None:
        self._kept: Lru[str, ParsedZone] = Lru(most_size=most, size_of=lambda _key, zone: zone.size)

    async def read(self, db: Database, site_id: str, zone_id: str) -> ParsedZone:
        """Returns the current zone; an empty one if there is none. One command.

        `db` must read from the primary: a secondary may still have the ads of a deactivated campaign.
        """
        key = zone_key(site_id, zone_id)
        known = self._kept.get(key)
        fields: Document = {"nonce": 1, "ads": 1}
        if known is not None:
            is_known = {"$eq": ["$nonce", {"$literal": known.nonce}]}
            fields["ads"] = {"$cond": [is_known, "$$REMOVE", "$ads"]}
        found = await db[ZONES.name].find_one({"_id": key}, fields)
        if found is None:
            return EMPTY
        if known is None or "ads" in found:
            self._kept.put(key, known := ParsedZone.of(found))
        return known
