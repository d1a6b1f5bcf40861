"""The diff and merged text of a conflict: the diff leads to the caller's text, and the merge contains both edits."""

from __future__ import annotations

import functools
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.resolvers.content.merge import LineMatcher, compare, merge_texts, unified_diff
from tests.content.support.patches import patched

LINES = st.lists(
    st.sampled_from(["", "a", "b", "c", "d", "\r", "+", "-x", " ", "@@ -1 +1 @@", "\\", "é\u2028"]), max_size=30
)
TEXTS = st.builds("\n".join, LINES)


@given(TEXTS, TEXTS)
def test_applying_the_diff_to_the_current_text_gives_the_text_of_the_caller(current: str, proposed: str) -> None:
    diff = unified_diff(current, proposed)

    assert patched(current, diff) == proposed
    assert (diff == "") is (current == proposed)


@given(TEXTS, TEXTS)
def test_matching_lines_are_equal_and_in_order(one: str, other: str) -> None:
    a, b = one.split("\n"), other.split("\n")

    blocks = LineMatcher(None, a, b).get_matching_blocks()

    assert blocks[-1] == (len(a), len(b), 0)
    before = (0, 0)
    for start, new_start, length in blocks:
        assert start >= before[0]
        assert new_start >= before[1]
        assert a[start : start + length] == b[new_start : new_start + length]
        before = (start + length, new_start + length)


@given(TEXTS, TEXTS)
def test_a_merge_with_an_unchanged_text_keeps_the_other_edit(base: str, edited: str) -> None:
    assert merge_texts(base, edited, base) == edited
    assert merge_texts(base, base, edited) == edited
    assert merge_texts(base, edited, edited) == edited


@given(
    before=st.lists(st.sampled_from("abc"), max_size=5),
    after=st.lists(st.sampled_from("abc"), max_size=5),
    between=st.integers(1, 5),
    ours=LINES,
    theirs=LINES,
)
def test_a_merge_contains_both_edits_if_an_unchanged_line_separates_them(
    before: list[str], after: list[str], between: int, ours: list[str], theirs: list[str]
) -> None:
    middle = [f"between {number}" for number in range(between)]
    base = ["first", *middle, "last"]

    both = merge_texts(
        "\n".join(base), "\n".join([*before, *ours, *middle, "last"]), "\n".join(["first", *middle, *theirs, *after])
    )

    assert both == "\n".join([*before, *ours, *middle, *theirs, *after])


def test_edits_of_the_same_or_adjacent_lines_are_not_merged() -> None:
    assert merge_texts("a\nb\nc\n", "x\nb\nc\n", "y\nb\nc\n") is None
    assert merge_texts("a\nb\nc\n", "x\nb\nc\n", "a\ny\nc\n") is None
    assert merge_texts("a\nb\nc\n", "b\nc\n", "x\nb\nc\n") is None
    assert merge_texts("a\nb\n", "a\nb\none\n", "a\nb\nother\n") is None


def test_a_line_added_at_the_end_does_not_overlap_the_last_line() -> None:
    assert merge_texts("a\nb", "A\nb", "a\nb\nc") == "A\nb\nc"
    assert merge_texts("a\nb\n", "A\nb\n", "a\nb\nc\n") == "A\nb\nc\n"


def test_a_diff_has_the_unified_format() -> None:
    assert unified_diff("One.\n\nTwo.\n", "One!\n\nTwo.") == (
        "--- current\n+++ proposed\n@@ -1,3 +1,3 @@\n-One.\n+One!\n \n-Two.\n+Two.\n\\ No newline at end of file\n"
    )
    assert unified_diff("", "a\n") == "--- current\n+++ proposed\n@@ -0,0 +1 @@\n+a\n"


async def test_without_a_base_there_is_a_diff_and_no_merge() -> None:
    assert await compare(None, "a", "b") == (unified_diff("a", "b"), None)


LONG = 256 * 1024
BOMBS = ("empty lines", "every other line", "shuffled", "a few lines, often", "many lines, now and then")


@functools.cache
def _bombs() -> dict[str, tuple[str, str, str]]:
    rng = random.Random(1)
    numbers = [str(number) for number in range(40_000)]

    def drawn(lines: list[str], count: int) -> tuple[str, str, str]:
        one, two, three = ("\n".join(rng.choices(lines, k=count)) for _ in range(3))
        return one, two, three

    return {
        "empty lines": ("\n" * LONG, "\n" * (LONG - 1), "\n" * (LONG - 2)),
        "every other line": (
            "\n".join(numbers),
            "\n".join(line if number % 2 else f"x{line}" for number, line in enumerate(numbers)),
            "\n".join(line if number % 3 else f"y{line}" for number, line in enumerate(numbers)),
        ),
        "shuffled": ("\n".join(numbers), "\n".join(reversed(numbers)), "\n".join(rng.sample(numbers, len(numbers)))),
        "a few lines, often": drawn(list("abcdefgh"), LONG // 2),
        "many lines, now and then": drawn(numbers[:1000], LONG // 4),
    }


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", BOMBS)
async def test_comparing_any_texts_takes_little_time(name: str) -> None:
    assert _bombs().keys() == set(BOMBS)
    base, current, proposed = _bombs()[name]

    began = time.process_time()
    found = await compare(base, current, proposed)
    took = time.process_time() - began

    assert patched(current, found.diff) == proposed
    assert took < 10
