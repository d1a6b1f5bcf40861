"""The rules of paths, slugs, titles and tags, for any input."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from portico.resolvers.content.nodes import MAX_DEPTH, parse_path
from portico.resolvers.content.rules import (
    MAX_TAG,
    MAX_TITLE,
    comparable_tag,
    require_permalink,
    require_tags,
    require_title,
)
from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import MAX_MARKS, MAX_SLUG

ODD = st.text(st.sampled_from("aB0-_./\\%A\0\n é\u202e"), max_size=30)
SLUGS = st.from_regex(r"[A-Za-z0-9]{1,5}([-_.]{1,2}[A-Za-z0-9]{1,5}){0,2}", fullmatch=True)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def is_refused(text: str, longest: int) -> bool:
    line = comparable_tag(text)
    seen = [one for one in line if unicodedata.category(one) not in {"Cf", "Zs", "Zl", "Zp"}]
    is_hidden = all(
        one in "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" or "VARIATION" in _name(one) for one in seen
    )
    is_turned = any(unicodedata.bidirectional(one) in TURNING for one in line)
    is_nothing = any(ord(one) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(one) <= 0xFDEF for one in line)
    is_tower = sum(unicodedata.category(one) in {"Mn", "Me"} for one in line) > MAX_MARKS
    return is_hidden or is_turned or is_nothing or is_tower or "\0" in text or len(_composed(text)) > longest


TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def _name(character: str) -> str:
    return unicodedata.name(character, "")


def is_slug(text: str) -> bool:
    try:
        return require_permalink(text) == text
    except InvalidInput:
        return False


@given(st.one_of(ODD, ODD.map(lambda text: f"/{text}"), st.text(max_size=30)))
def test_a_text_is_a_path_exactly_if_its_parts_are_slugs(text: str) -> None:
    parts = text.split("/")
    is_path = parts[0] == "" and 1 <= len(parts) - 1 <= MAX_DEPTH and all(map(is_slug, parts[1:]))

    assert parse_path(text) == (tuple(parts[1:]) if is_path else None)


@given(st.lists(SLUGS, min_size=1, max_size=MAX_DEPTH))
def test_slugs_make_a_path_that_parses_back_to_them(slugs: list[str]) -> None:
    assert parse_path("/" + "/".join(slugs)) == tuple(slugs)


@given(SLUGS)
def test_a_slug_contains_no_path_separators(slug: str) -> None:
    assert is_slug(slug)
    assert not {"/", "\\", "%"} & set(slug)
    assert slug not in {".", ".."}


def test_the_longest_path_is_accepted() -> None:
    longest = ("/" + "a" * MAX_SLUG) * MAX_DEPTH

    assert parse_path(longest) == ("a" * MAX_SLUG,) * MAX_DEPTH
    assert parse_path(f"{longest}a") is None
    assert parse_path(f"{longest}/a") is None


@given(st.text(max_size=MAX_TITLE + 10))
def test_a_title_is_one_line_or_refused(text: str) -> None:
    try:
        title = require_title(text)
    except InvalidInput:
        assert is_refused(text, MAX_TITLE)
    else:
        assert 0 < len(title) <= MAX_TITLE
        assert title == " ".join(title.split())
        assert not any(unicodedata.category(one) == "Cc" for one in title)
        assert require_title(title) == title


@given(st.lists(st.text(max_size=MAX_TAG), max_size=10))
def test_tags_are_a_set_and_are_found_by_any_equivalent_spelling(given_tags: list[str]) -> None:
    try:
        tags = require_tags(given_tags)
    except InvalidInput:
        assert any(is_refused(tag, MAX_TAG) for tag in given_tags)
    else:
        assert len(set(tags)) == len(tags)
        assert {comparable_tag(tag) for tag in given_tags} == set(tags)
        assert require_tags(tags) == tags
