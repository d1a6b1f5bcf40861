"""Choices are among those that a model by brute force allows, and ties are drawn evenly."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.resolvers.ads.ads import ad_key, folded
from portico.resolvers.ads.choosing import Choice, choose
from portico.resolvers.ads.zone_reads import ParsedZone
from tests.ads.support.model import Page, expected_scores, name_of, reason_of, score_of

Given = dict[str, Any]
Names = frozenset[tuple[str, str]]
# Some differ only in case, width or blanks; others would do harm as a part of a query.
WORDS = ["jazz", " JAZZ ", "\uff4a\uff41\uff5a\uff5a", "Straße", "STRASSE", "$ne", "a.b", "\u0130", "", "  ", "q" * 100]
PRICES = st.sampled_from([0, 0, 1, 2, 3, 3, 2**31 - 1])


def ad(unit: str, ecpm: int = 1, **fields: Any) -> Given:
    """An ad as it is stored."""
    plain = {"keywords": [], "daily_cap": 1, "total_cap": None, "shown": 0}
    return {"campaign_id": "acme:spring", "ad_unit_id": unit, "ecpm": ecpm, **plain, **fields}


def parsed(ads: Sequence[Given]) -> ParsedZone:
    """The zone with these ads, dearest first, as it is stored."""
    return ParsedZone.of({"_id": "site zone", "nonce": 1, "ads": sorted(ads, key=lambda one: -one["ecpm"])})


def chosen(ads: Sequence[Given], page: Page, rng: random.Random, refused: Names = frozenset()) -> Choice:
    return choose(
        parsed(ads),
        {ad_key(*name): count for name, count in page.counts.items()},
        keywords=folded(page.keywords),
        limit=page.limit,
        rng=rng,
        refused={ad_key(*name) for name in refused},
    )


@st.composite
def zones(draw: st.DrawFn) -> list[Given]:
    sizes = draw(st.integers(0, 12))
    return [
        ad(
            f"unit {number}",
            draw(PRICES),
            keywords=draw(st.lists(st.sampled_from([word for word in WORDS if word.strip()]), max_size=3)),
            daily_cap=draw(st.integers(1, 2)),
            **draw(
                st.sampled_from([{}, {}, {"total_cap": 0}, {"total_cap": 5, "shown": 4}, {"total_cap": 5, "shown": 9}])
            ),
        )
        for number in range(sizes)
    ]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Given], Page, Names]:
    ads = draw(zones())
    names = [name_of(one) for one in ads]
    some = st.sets(st.sampled_from(names)) if names else st.just(set())
    counts = {name: draw(st.integers(0, 2)) for name in draw(some)}
    page = Page(counts, draw(st.lists(st.sampled_from(WORDS), max_size=6)), draw(st.integers(1, 14)))
    return ads, page, frozenset(draw(some))


@given(cases(), st.integers())
def test_a_choice_has_the_best_scores_that_may_be_shown(case: tuple[list[Given], Page, Names], seed: int) -> None:
    ads, page, refused = case

    choice = chosen(ads, page, random.Random(seed), refused)

    assert [score_of(one, page) for one in choice.ads] == expected_scores(ads, page, refused)
    assert len({name_of(one) for one in choice.ads}) == len(choice.ads)


@given(cases(), st.integers())
def test_every_other_ad_is_rejected_once_with_its_reason(case: tuple[list[Given], Page, Names], seed: int) -> None:
    ads, page, refused = case
    choice = chosen(ads, page, random.Random(seed), refused)

    rejected = choice.rejected()

    names = [name_of(one.ad) for one in rejected]
    assert sorted(names + [name_of(one) for one in choice.ads]) == sorted(map(name_of, ads))
    assert [one.reason for one in rejected] == [reason_of(one.ad, page, refused) for one in rejected]
    scores = [score_of(one.ad, page) for one in rejected]
    assert scores == sorted(scores, reverse=True)


# 0.999 quantiles of the chi-squared distribution, by degrees of freedom.
# Source: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.4.
QUANTILES = {4: 18.467, 5: 20.515, 23: 49.728}


def assert_even(counts: Counter[Any], outcomes: int) -> None:
    """Pearson's test: these outcomes are equally likely."""
    expected = counts.total() / outcomes
    missing = (outcomes - len(counts)) * expected
    statistic = missing + sum((count - expected) ** 2 / expected for count in counts.values())
    assert statistic < QUANTILES[outcomes - 1], counts


@pytest.mark.parametrize("keywords", [[], ["jazz"], ["nothing shared"]])
def test_each_of_the_ads_with_the_same_score_is_chosen_equally_often(keywords: list[str]) -> None:
    rng = random.Random(7)
    tied = [ad(f"tied {number}", 5, keywords=["jazz"]) for number in range(5)]
    capped = [ad("capped", 5, keywords=["jazz"]), ad("used up", 5, total_cap=1, shown=1, keywords=["jazz"])]
    page = Page({name_of(capped[0]): 1}, keywords, 1)
    others = [*capped, *(ad(f"cheap {number}", 1) for number in range(3))]

    drawn = Counter(chosen([*tied, *others], page, rng).ads[0]["ad_unit_id"] for _ in range(5_000))

    assert_even(drawn, 5)


def test_every_order_of_ads_with_the_same_score_is_equally_likely() -> None:
    rng = random.Random(8)
    tied = [ad(f"tied {number}", 5) for number in range(4)]

    orders = Counter(tuple(one["ad_unit_id"] for one in chosen(tied, Page({}, [], 4), rng).ads) for _ in range(12_000))

    assert set(orders) <= set(itertools.permutations(one["ad_unit_id"] for one in tied))
    assert_even(orders, 24)


def test_free_ads_tie_whether_or_not_they_match() -> None:
    rng = random.Random(9)
    free = [ad(f"free {number}", 0, keywords=["jazz"] * (number % 2)) for number in range(6)]

    drawn = Counter(chosen(free, Page({}, ["jazz"], 1), rng).ads[0]["ad_unit_id"] for _ in range(6_000))

    assert_even(drawn, 6)


def test_at_the_same_price_the_ad_with_more_matches_wins() -> None:
    page = Page({}, ["jazz", "blues"], 1)
    ads = [ad("none", 3), ad("one", 3, keywords=["jazz"]), ad("two", 3, keywords=["jazz", "blues"])]

    choice = chosen(ads, page, random.Random(1))

    assert [one["ad_unit_id"] for one in choice.ads] == ["two"]
    assert [(one.ad["ad_unit_id"], one.reason) for one in choice.rejected()] == [
        ("one", "OUTBID"),
        ("none", "KEYWORDS"),
    ]


class Counted(dict[str, Any]):
    """An ad that counts how often a choice looks at it."""

    looks = 0

    def __getitem__(self, name: str) -> Any:
        Counted.looks += 1
        return super().__getitem__(name)


@pytest.mark.parametrize("tied", [True, False])
def test_a_choice_looks_at_no_more_ads_in_a_large_zone(tied: bool) -> None:
    looks = []
    for size in (10, 1_000):
        ads = [
            Counted(ad(f"unit {number}", 5 if tied else number, keywords=[f"word {number}"])) for number in range(size)
        ]
        zone = parsed(ads)
        Counted.looks = 0
        choose(zone, {}, keywords=frozenset({"word 3", "word 5"}), limit=3, rng=random.Random(1))
        looks.append(Counted.looks)

    assert looks[1] <= looks[0]


def test_ten_thousand_keywords_cost_no_more_than_those_of_the_zone() -> None:
    page = frozenset(f"word {number}" for number in range(10_000))
    zone = parsed([ad("one", 5, keywords=["word 7", "other"]), ad("two", 6)])

    choice = choose(zone, {}, keywords=page, limit=1, rng=random.Random(1))

    assert [one["ad_unit_id"] for one in choice.ads] == ["one"]
