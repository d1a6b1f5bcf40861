"""Chooses the best ads of a zone for a page view, and says why the others were not chosen.

The score of an ad is its price, `ecpm`; for a page with keywords it is `ecpm * log(1.1 + matches)`, where `matches` is
the number of folded keywords that the page and the ad share. The ads with the highest scores are chosen, and ads with
equal scores in random order, each order as likely as any other. An ad is left out if the user has seen it as often in
the day as its daily cap allows, or if it is exhausted.

Source: MongoDB Applied Design Patterns, ch. 7: by price, with frequency caps, and by keywords.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

from portico.resolvers.documents import Document

from .ads import MAX_KEYWORDS
from .profiles import is_capped
from .zone_reads import ParsedZone, is_exhausted

FREQUENCY_CAP, EXHAUSTED, KEYWORDS, OUTBID = "FREQUENCY_CAP", "EXHAUSTED", "KEYWORDS", "OUTBID"
# By the number of matches.
_WEIGHTS = tuple(math.log(1.1 + matches) for matches in range(MAX_KEYWORDS + 1))
# Places of ads with the same score.
_Tied = tuple[float, Sequence[int]]


class Rejected(NamedTuple):
    """An ad that was not chosen, and why: FREQUENCY_CAP, EXHAUSTED, KEYWORDS or OUTBID, the first that applies."""

    ad: Document
    reason: str


@dataclass(frozen=True)
class Choice:
    """The chosen ads, best first, with the state by which they were chosen."""

    zone: ParsedZone
    counts: Mapping[str, int]
    keywords: frozenset[str]
    refused: Collection[str]
    places: Sequence[int]

    @property
    def ads(self) -> list[Document]:
        return [self.zone.ads[place] for place in self.places]

    def rejected(self) -> list[Rejected]:
        """Returns every other ad of the zone once, best first. Its cost grows with the ads and keywords of the zone."""
        chosen = set(self.places)
        others = [place for place in range(len(self.zone.ads)) if place not in chosen]
        others.sort(key=lambda place: -_score(self.zone.ads[place], self._matches[place], self.keywords))
        return [Rejected(self.zone.ads[place], self._reason(place)) for place in others]

    @cached_property
    def _matches(self) -> Sequence[int]:
        if not self.keywords:
            return [0] * len(self.zone.ads)
        # The zone's index of keywords lacks exhausted ads.
        return [len(words & self.keywords) for words in self.zone.words]

    @cached_property
    def _more(self) -> int:
        return sum(self.zone.keys[place] not in self.counts for place in self.places)

    def _reason(self, place: int) -> str:
        ad, key = self.zone.ads[place], self.zone.keys[place]
        if is_capped(self.counts, key, ad["daily_cap"], more=self._more):
            return FREQUENCY_CAP
        if key in self.refused or is_exhausted(ad):
            return EXHAUSTED
        return KEYWORDS if self.keywords and not self._matches[place] else OUTBID


def choose(
    zone: ParsedZone,
    counts: Mapping[str, int],
    *,
    keywords: frozenset[str],
    limit: int,
    rng: random.Random,
    refused: Collection[str] = (),
    more: int = 0,
) -> Choice:
    """Returns the best ads that may be shown, at most `limit`.

    A choice touches the ads that share a keyword with the page, the chosen ads, and the ads before them that are capped
    or refused. Of ads with equal scores that it touches, it copies the places if some of them match and some do not.

    Args:     counts: how often the user has seen each ad in the day, by the keys of ads.
              keywords: folded, see `ads.require_page_keywords`.
              refused: the keys of ads whose impressions are used up, although the zone does not show it yet.
              more: how many ads the page shows already that `counts` lacks. A profile counts 2,000 ads in a day.
    """
    places: list[int] = []
    matches = _count_matches(zone, keywords)
    for score, tied in _ranked(zone, matches, keywords):
        for place in _drawn(tied, rng):
            if len(places) >= limit:
                break
            ad, key = zone.ads[place], zone.keys[place]
            # An ad that matches is also in the group of its price. Its score tells the two groups apart.
            is_own = _score(ad, matches.get(place, 0), keywords) == score
            if is_own and key not in refused and not is_capped(counts, key, ad["daily_cap"], more=more):
                places.append(place)
                more += key not in counts
        if len(places) >= limit:
            break
    return Choice(zone, counts, keywords, refused, tuple(places))


def _score(ad: Document, matches: int, keywords: frozenset[str]) -> float:
    price: int = ad["ecpm"]
    return price * _WEIGHTS[matches] if keywords else price


def _count_matches(zone: ParsedZone, keywords: frozenset[str]) -> Mapping[int, int]:
    """Returns the number of matches of the places that have any. Looks up the shorter of the two lists of keywords."""
    index = zone.by_keyword
    shared: Iterable[str] = (
        [word for word in keywords if word in index]
        if len(keywords) < len(index)
        else [word for word in index if word in keywords]
    )
    return Counter(chain.from_iterable(index[word] for word in shared))


def _ranked(zone: ParsedZone, matches: Mapping[int, int], keywords: frozenset[str]) -> Iterator[_Tied]:
    """Yields groups of places, the highest score first. All places with the same score are in the same group.

    A place with matches is in the group of its score, and also in the group that it would have without matches.
    """
    factor = _WEIGHTS[0] if keywords else 1
    unmatched = ((price * factor, places) for price, places in zone.by_price)
    # A price of 0 has the same score with any matches, so its place is in the right group already.
    scored = [(_score(zone.ads[place], number, keywords), (place,)) for place, number in matches.items()]
    matched = sorted((one for one in scored if one[0] > 0), key=itemgetter(0), reverse=True)
    merged = heapq.merge(unmatched, matched, key=itemgetter(0), reverse=True)
    for score, group in groupby(merged, key=itemgetter(0)):
        members = [places for _, places in group]
        yield score, members[0] if len(members) == 1 else tuple(chain.from_iterable(members))


def _drawn(places: Sequence[int], rng: random.Random) -> Iterator[int]:
    """Yields the places in random order, and draws each only when it is asked for (Fisher and Yates)."""
    moved: dict[int, int] = {}
    for last in range(len(places) - 1, -1, -1):
        pick = rng.randrange(last + 1) if last else 0
        yield places[moved.get(pick, pick)]
        moved[pick] = moved.pop(last, last)
