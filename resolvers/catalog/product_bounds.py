"""Bounds on the lists of products that could take long in a large catalog: searches, and filters of several conditions.

MongoDB cannot stop a query after a number of index keys. So some conditions are first counted, each up to a bound. The
bound is half of the products that a read may examine: the other half is for the read itself.

* **Filters.** If one condition matches few products, an index finds these, and the list is as it would be without
  bounds. Otherwise, many products match each condition, but maybe few match all of them. Then a page considers a
  bounded number of products, and the next page continues behind them. No product is lost.
* **Searches.** Each word may find an equal share of it. If no word finds more, the list is as it would be
  without bounds. If some words do, only the others find products. If all words do, the list has the best matches of
  each word, as many as its share.

In a small collection nothing changes: MongoDB keeps its size, so this takes one cheap command. Otherwise one command
counts the conditions, from index keys only. `rest` of a listing holds the conditions that no index checks: a page
considers the next `window` rows along one index. If it is not full, the same rows are read again together with the key
of the last, so that both are of one moment, and this key becomes the `endCursor`. For a search whose words are all
common, `sources` read the first keys of each word. The text index is in descending order of weight, so these are the
best matches. The score of MongoDB would need all keys of the word, so `RELEVANCE` counts the words in the title
instead. It depends on the document alone, and gives stable cursors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from portico.resolvers.documents import COMPARED, Database, Document
from portico.resolvers.paging import MAX_WALKS
from portico.resolvers.texts import fold

from .product_listings import ProductListing
from .product_terms import EVERY, term
from .products import PRODUCTS, TEXT_PATHS

# The most conditions of one filter that are counted. Other conditions can only make a list shorter.
_MAX_COUNTED = 8
_COUNTED_A_COMMAND = 100
_DEFAULT_ORDER = "issue_date"
_PART = re.compile(r'(?P<minus>(?<!\S)-)?(?:"(?P<phrase>[^"]*)"|(?P<plain>[^\s"]+))')
_TOKEN = re.compile(r"\w+")


class Probe(NamedTuple):
    """A filter whose matches are counted, up to `most` and one more."""

    filter: Mapping[str, Any]
    most: int


@dataclass(frozen=True)
class SearchText:
    """The parts of a full-text search: the words that can match, and phrases that must or must not occur."""

    words: tuple[str, ...]
    phrases: tuple[str, ...]
    excluded: tuple[str, ...]
    excluded_phrases: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> SearchText:
        """Splits a search as MongoDB does. The words of phrases are words, too."""
        words: dict[str, str] = {}
        phrases: list[str] = []
        excluded: list[str] = []
        excluded_phrases: list[str] = []
        for part in _PART.finditer(text):
            phrase, plain = part["phrase"], part["plain"]
            tokens = _TOKEN.findall(phrase if plain is None else plain)
            if part["minus"]:
                excluded += tokens if phrase is None else []
                excluded_phrases += [phrase] if phrase else []
            else:
                words |= {fold(token): token for token in tokens if fold(token) not in words}
                phrases += [phrase] if phrase else []
        return SearchText(tuple(words.values()), tuple(phrases), tuple(excluded), tuple(excluded_phrases))


def probes_of(listing: ProductListing, most: int) -> list[Probe]:
    """Returns what to count before the listing can be bounded; nothing for a listing that never takes long.

    Args:     most: the most products that a read may examine.
    """
    conditions = _conditions(listing)
    search = _search_of(conditions)
    if search is not None:
        words = SearchText.parse(search).words
        return [Probe({"$text": {"$search": word}}, _share(most, words)) for word in words]
    if not is_compound(listing):
        return []
    found: list[Mapping[str, Any]] = [one for one in conditions if "keywords" in one]
    found += [{"terms": EVERY, **one} for one in conditions if not {"terms", "keywords"} & one.keys()]
    found += [one for one in reversed(conditions) if one.get("terms", EVERY) != EVERY]
    return [Probe(one, _half(most)) for one in found[:_MAX_COUNTED]]


async def count_probes(db: Database, probes: Sequence[Probe]) -> list[int]:
    """Returns how many products match each probe: at most its bound and one more. Counts up to a hundred by one
    command.
    """
    found: list[int] = []
    for start in range(0, len(probes), _COUNTED_A_COMMAND):
        found += await _count_together(db, probes[start : start + _COUNTED_A_COMMAND])
    return found


async def _count_together(db: Database, probes: Sequence[Probe]) -> list[int]:
    parts: list[list[Document]] = [
        [{"$match": one.filter}, {"$limit": one.most + 1}, {"$count": "rows"}, {"$set": {"part": {"$literal": number}}}]
        for number, one in enumerate(probes)
    ]
    unions = [{"$unionWith": {"coll": PRODUCTS.name, "pipeline": part}} for part in parts[1:]]
    rows = await (await db[PRODUCTS.name].aggregate([*parts[0], *unions])).to_list()
    counts = {row["part"]: row["rows"] for row in rows}
    return [counts.get(number, 0) for number in range(len(probes))]


async def estimate_products(db: Database, limits: Sequence[int]) -> int:
    """Returns about how many products there are, without reading them, to be compared with the limits only."""
    return int(await db[PRODUCTS.name].estimated_document_count(comment={COMPARED: sorted(set(limits))}))


def bounded(listing: ProductListing, counts: Sequence[int], most: int) -> ProductListing:
    """Returns the listing with its bounds.

    Args:     counts: the results of its probes.  most: the most products that a read may examine.
    """
    conditions = _conditions(listing)
    search = _search_of(conditions)
    if search is not None:
        return _bounded_search(listing, conditions, SearchText.parse(search), counts, most)
    if not counts or min(counts) <= _half(most):
        named = listing.filter if listing.named is None else listing.named
        # Without the term of all products, MongoDB cannot walk along these.
        narrow = [one for one in conditions if one.get("terms") != EVERY]
        has_terms = any("terms" in one for one in narrow)
        return replace(listing, filter=together(narrow) if has_terms else listing.filter, named=named, is_short=True)
    driver = _driver(listing, conditions)
    rest = [one for one in conditions if one not in driver]
    named = listing.filter if listing.named is None else listing.named
    return replace(listing, filter=together(driver), rest=together(rest), named=named, window=_half(most))


def unbounded(listing: ProductListing) -> ProductListing:
    """Returns a listing of a small catalog, which needs no bounds."""
    return replace(listing, is_short=True)


def may_be_long(listing: ProductListing) -> bool:
    """Returns whether the listing needs bounds in a large catalog."""
    return _search_of(_conditions(listing)) is not None or is_compound(listing)


def is_filtered(listing: ProductListing) -> bool:
    """Returns whether the listing needs bounds because of its filter, and not because of a search."""
    return _search_of(_conditions(listing)) is None and is_compound(listing)


def is_compound(listing: ProductListing) -> bool:
    """Returns whether no walk along one index finds exactly the rows of the list, in its order."""
    order = [path for path, _ in listing.sort.paths]
    others = [one for one in _conditions(listing) if one.get("terms") != EVERY and not one.keys() & set(order)]
    if len(others) != 1:
        return len(others) > 1
    if "terms" in others[0]:
        # Beyond this, the walk along the index of all products skips those of other categories.
        return _walks(others[0]["terms"]) > MAX_WALKS
    return not ("keywords" in others[0] and order == [_DEFAULT_ORDER])


def _conditions(listing: ProductListing) -> list[Mapping[str, Any]]:
    """Returns the conditions that `together` has put together."""
    parts: Sequence[Mapping[str, Any]] = listing.filter.get("$and", [listing.filter])
    return [{name: wanted} for part in parts for name, wanted in part.items()]


def together(conditions: Sequence[Mapping[str, Any]]) -> Document:
    """Returns the filter document that requires all of the conditions."""
    names = [name for condition in conditions for name in condition]
    if len(set(names)) < len(names):
        return {"$and": list(conditions)}
    return {name: wanted for condition in conditions for name, wanted in condition.items()}


def _search_of(conditions: Sequence[Mapping[str, Any]]) -> str | None:
    return next((one["$text"]["$search"] for one in conditions if "$text" in one), None)


def _half(most: int) -> int:
    return max(most // 2, 1)


def _share(most: int, words: Sequence[str]) -> int:
    """Returns how many products each word of a search can find."""
    return max(_half(most) // len(words), 1)


def _driver(listing: ProductListing, conditions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the conditions for one walk along an index in the order of the list."""
    order = [path for path, _ in listing.sort.paths]
    # Categories and genres, which come last, have fewer products than types.
    terms = [one for one in reversed(conditions) if "terms" in one and _walks(one["terms"]) <= MAX_WALKS]
    chosen = next((one for one in terms if one["terms"] != EVERY), {"terms": EVERY})
    return [chosen, *(one for one in conditions if one.keys() & set(order))]


def _walks(wanted: Any) -> int:
    return len(wanted["$in"]) if isinstance(wanted, Mapping) else 1


def _bounded_search(
    listing: ProductListing,
    conditions: Sequence[Mapping[str, Any]],
    search: SearchText,
    counts: Sequence[int],
    most: int,
) -> ProductListing:
    if not counts or max(counts) <= _share(most, search.words):
        return replace(listing, is_short=True)
    named = listing.filter if listing.named is None else listing.named
    others = [one for one in conditions if "$text" not in one] + [_has(phrase) for phrase in search.phrases]
    rare = [word for word, count in zip(search.words, counts, strict=True) if count <= _share(most, search.words)]
    # A word that no product has must not leave only the common words.
    if any(counts[search.words.index(word)] for word in rare):
        without = [*(f"-{word}" for word in search.excluded), *(f'-"{phrase}"' for phrase in search.excluded_phrases)]
        text = {"$text": {"$search": " ".join([*rare, *without])}}
        return replace(listing, filter=together([text, *others]), named=named, is_short=True)
    others += [{"$nor": [_has(word, is_word=True)]} for word in search.excluded]
    others += [{"$nor": [_has(phrase)]} for phrase in search.excluded_phrases]
    sources = [{"$text": {"$search": word}} for word in search.words]
    titled = [term("word", fold(word)) for word in search.words]
    score = {"$size": {"$setIntersection": [{"$ifNull": ["$keywords", []]}, titled]}}
    rest = {"$and": others} if others else {}
    return replace(listing, filter={}, rest=rest, named=named, sources=sources, window=_half(most), score=score)


def _has(text: str, *, is_word: bool = False) -> Document:
    """Returns the condition that a text occurs. Accents count here, unlike in a search by the index."""
    pattern = re.escape(text)
    # Case and letters of all languages, as in the index.
    wanted = {"$regex": f"(*UCP)\\b{pattern}\\b" if is_word else pattern, "$options": "i"}
    return {"$or": [{path: wanted} for path in TEXT_PATHS]}
