"""What a choice of ads may be, worked out by brute force: every ad is scored, and all of them are sorted."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Given = dict[str, Any]


@dataclass(frozen=True)
class Page:
    """A page view. `counts` are the user's impressions in the day, by campaign and ad unit."""

    counts: Mapping[tuple[str, str], int]
    keywords: Sequence[str]
    limit: int


def normal(keyword: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", keyword).casefold())
    return " ".join(folded.split())


def name_of(ad: Mapping[str, Any]) -> tuple[str, str]:
    return ad["campaign_id"], ad["ad_unit_id"]


def matches_of(ad: Given, page: Page) -> int:
    return len({normal(word) for word in ad["keywords"]} & ({normal(word) for word in page.keywords} - {""}))


def score_of(ad: Given, page: Page) -> float:
    price: int = ad["ecpm"]
    has_keywords = any(normal(word) for word in page.keywords)
    return price * math.log(1.1 + matches_of(ad, page)) if has_keywords else price


def is_capped(ad: Given, page: Page) -> bool:
    cap: int = ad["daily_cap"]
    return page.counts.get(name_of(ad), 0) >= cap


def is_used_up(ad: Given, refused: Collection[tuple[str, str]] = ()) -> bool:
    cap: int | None = ad["total_cap"]
    return name_of(ad) in refused or (cap is not None and cap <= ad["shown"])


def expected_scores(ads: Sequence[Given], page: Page, refused: Collection[tuple[str, str]] = ()) -> list[float]:
    """The scores of the chosen ads, best first. Which of the ads with the last score are chosen is open."""
    able = [ad for ad in ads if not is_capped(ad, page) and not is_used_up(ad, refused)]
    return sorted((score_of(ad, page) for ad in able), reverse=True)[: page.limit]


def reason_of(ad: Given, page: Page, refused: Collection[tuple[str, str]] = ()) -> str:
    if is_capped(ad, page):
        return "FREQUENCY_CAP"
    if is_used_up(ad, refused):
        return "EXHAUSTED"
    if any(normal(word) for word in page.keywords) and not matches_of(ad, page):
        return "KEYWORDS"
    return "OUTBID"
