"""Ads: what an advertiser places in a zone, its rules and its key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import NamedTuple

from portico.resolvers.documents import Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import fold, require_line, require_text

MAX_ID = 200
MAX_ECPM = 2**31 - 1
MAX_KEYWORDS = 50
# Characters, as given and as folded. A folded keyword can be 18 times as long.
MAX_KEYWORD = 100
# Bytes of UTF-8 of all keywords of an ad, as given and as folded: 1,000 such ads fill a quarter of a document.
MAX_KEYWORD_BYTES = 2_000
# The keywords of a page, which one call may give, and their characters together.
MAX_PAGE_KEYWORDS = 10_000
MAX_PAGE_CHARACTERS = 100_000
# The ads that one call may choose.
MAX_CHOSEN = 100
# The largest integer that a JSON number represents exactly.
MAX_CAP = 2**53 - 1


class Ad(NamedTuple):
    """An ad as it is placed in a zone. Prices are cents for a thousand impressions; see `zones` for the fields."""

    campaign_id: str
    ad_unit_id: str
    ecpm: int
    keywords: Sequence[str] = ()
    daily_cap: int = 1
    total_cap: int | None = None


def ad_key(campaign_id: str, ad_unit_id: str) -> str:
    """Returns the key of an ad: 24 hex digits, so that nothing of a caller's is part of a field path."""
    text = json.dumps([campaign_id, ad_unit_id])
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def key_of_ad(placed: Document) -> str:
    """Returns the key of an ad in a zone."""
    return ad_key(placed["campaign_id"], placed["ad_unit_id"])


def require_id(value: str, *path: str) -> str:
    """Returns an id of the caller's: 1 to 200 characters, no control characters, no surrounding blanks.

    Raises InvalidInput.
    """
    if require_line(value, *path, longest=MAX_ID) != value:
        raise InvalidInput("An id has no surrounding blanks.", *path, code=InvalidInput.WRONG_FORMAT)
    return value


def require_campaign_id(value: str, *path: str) -> str:
    """Returns a campaign id, `advertiser:campaign`. Raises InvalidInput."""
    advertiser, _, campaign = require_id(value, *path).partition(":")
    if not advertiser or not campaign:
        text = "A campaign id must be `advertiser:campaign`, for example `acme:spring`."
        raise InvalidInput(text, *path, code=InvalidInput.WRONG_FORMAT, pattern="[^:]+:.+")
    return value


def advertiser_of(campaign_id: str) -> str:
    return campaign_id.partition(":")[0]


def require_ad(ad: Ad, *path: str) -> Ad:
    """Returns the ad with its keywords trimmed, each once. Raises InvalidInput, which names the field."""
    with InvalidInput.collect() as check:
        check(require_campaign_id, ad.campaign_id, *path, "campaign_id")
        check(require_id, ad.ad_unit_id, *path, "ad_unit_id")
        check(_require_ecpm, ad.ecpm, *path, "ecpm")
        check(_require_daily_cap, ad.daily_cap, *path, "daily_cap")
        check(_require_total_cap, ad.total_cap, *path, "total_cap")
        keywords = check(_require_keywords, ad.keywords, *path, "keywords")
    return ad._replace(keywords=keywords)


def _require_ecpm(ecpm: int, *path: str) -> None:
    if not 0 <= ecpm <= MAX_ECPM:
        text = f"`ecpm` must be between 0 and 2^31 - 1; got {ecpm}."
        raise InvalidInput(text, *path, code=InvalidInput.OUT_OF_RANGE, least=0, most=MAX_ECPM)


def _require_daily_cap(cap: int, *path: str) -> None:
    if cap < 1:
        raise InvalidInput(f"`dailyCap` must be at least 1; got {cap}.", *path, code=InvalidInput.OUT_OF_RANGE, least=1)


def _require_total_cap(cap: int | None, *path: str) -> None:
    if cap is not None and not 0 <= cap <= MAX_CAP:
        text = f"`totalCap` must be between 0 and 2^53 - 1; got {cap}."
        raise InvalidInput(text, *path, code=InvalidInput.OUT_OF_RANGE, least=0, most=MAX_CAP)


def _require_keywords(keywords: Sequence[str], *path: str) -> list[str]:
    if len(keywords) > MAX_KEYWORDS:
        raise InvalidInput(
            f"There are {len(keywords):,} keywords; {MAX_KEYWORDS} are allowed.",
            *path,
            code=InvalidInput.TOO_MANY,
            most=MAX_KEYWORDS,
        )
    with InvalidInput.collect() as check:
        texts = [check(_require_keyword, keyword, *path, str(number)) for number, keyword in enumerate(keywords)]
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(fold(text), text)
    size = sum(_size(text, folded_text) for folded_text, text in found.items())
    if size > MAX_KEYWORD_BYTES:
        message = f"The keywords have {size:,} bytes together (UTF-8, normalized); {MAX_KEYWORD_BYTES:,} are allowed."
        raise InvalidInput(message, *path, code=InvalidInput.TOO_LONG, most=MAX_KEYWORD_BYTES)
    return list(found.values())


def _require_keyword(keyword: str, *path: str) -> str:
    text = require_text(keyword, *path, longest=MAX_KEYWORD)
    length = len(fold(text))
    if length > MAX_KEYWORD:
        message = f"A keyword has {length:,} characters when its letters are normalized; {MAX_KEYWORD} are allowed."
        raise InvalidInput(message, *path, code=InvalidInput.TOO_LONG, most=MAX_KEYWORD)
    return text


def _size(text: str, folded_text: str) -> int:
    return max(len(text.encode()), len(folded_text.encode()))


def fitting(keywords: Iterable[str]) -> Iterator[str]:
    """Yields the first of these keywords that an ad may have together, and skips those that are too long."""
    number, size = 0, 0
    for keyword in keywords:
        folded_text = fold(keyword)
        size_after = size + _size(keyword, folded_text)
        if number < MAX_KEYWORDS and len(folded_text) <= MAX_KEYWORD and size_after <= MAX_KEYWORD_BYTES:
            number, size = number + 1, size_after
            yield keyword


def require_page_keywords(
    keywords: Sequence[str], *path: str, folds: MutableMapping[str, str] | None = None
) -> frozenset[str]:
    """Returns the folded keywords of a page, without those that no ad can have: blank ones, and too long ones.

    Args:     folds: the keywords that were folded before, which gets the new ones.
    Raises:   InvalidInput (too many keywords, or too many characters in one or in all).
    """
    if len(keywords) > MAX_PAGE_KEYWORDS:
        text = f"There are {len(keywords):,} keywords; {MAX_PAGE_KEYWORDS:,} are allowed."
        raise InvalidInput(text, *path, code=InvalidInput.TOO_MANY, most=MAX_PAGE_KEYWORDS)
    with InvalidInput.collect() as check:
        for number, keyword in enumerate(keywords):
            if len(keyword) > MAX_KEYWORD:
                text = f"A keyword has {len(keyword):,} characters; {MAX_KEYWORD} are allowed."
                check.refuse(InvalidInput(text, *path, str(number), code=InvalidInput.TOO_LONG, most=MAX_KEYWORD))
    characters = sum(map(len, keywords))
    if characters > MAX_PAGE_CHARACTERS:
        text = f"The keywords have {characters:,} characters together; {MAX_PAGE_CHARACTERS:,} are allowed."
        raise InvalidInput(text, *path, code=InvalidInput.TOO_LONG, most=MAX_PAGE_CHARACTERS)
    known = {} if folds is None else folds
    for keyword in keywords:
        if keyword not in known:
            text = fold(keyword)
            known[keyword] = text if len(text) <= MAX_KEYWORD else ""
    return frozenset(known[keyword] for keyword in keywords) - {""}


def require_limit(limit: int, *path: str) -> None:
    """Raises InvalidInput for a number of ads that a call may not choose."""
    if not 1 <= limit <= MAX_CHOSEN:
        raise InvalidInput(
            f"`limit` must be between 1 and {MAX_CHOSEN}; got {limit}.",
            *path,
            code=InvalidInput.OUT_OF_RANGE,
            least=1,
            most=MAX_CHOSEN,
        )


def folded(keywords: Iterable[str]) -> frozenset[str]:
    """Returns the keywords as they are compared: without regard to case, width and blanks."""
    return frozenset(map(fold, keywords)) - {""}


def require_ad_in(placed: Document) -> None:
    """Raises LookupError, TypeError or ValueError if the ad of a zone is not as `zones` describes it."""
    fields = {name: placed[name] for name in Ad._fields}
    try:
        require_ad(Ad(**fields))
    except InvalidInput as error:
        raise ValueError(error.message) from None
    if placed["shown"] < 0:
        raise ValueError(f"`shown` is {placed['shown']}")
