"""Compares and merges two edits of one text, in bounded time for all texts.

The time of `merge3` and of Python's `difflib` grows with the square of the number of lines. Both ask a matcher for the
common lines of two texts. `LineMatcher` limits that time. It matches common lines at both ends, then lines that occur
once in each text, and compares the lines between those within a budget. Beyond the budget, lines count as different.
Therefore, a diff may be longer than necessary, or a merge may fail, but neither is ever wrong.

Source of the idea: Bram Cohen's "patience diff".
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from typing import NamedTuple

from merge3 import Merge3

# Pairs of lines to compare: up to about a second of work.
_BUDGET = 2_000_000
_DEPTH = 10
_CONTEXT = 3
# Characters of all texts together. Longer texts are compared in a thread.
_SHORT = 20_000
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NO_NEWLINE = "\n\\ No newline at end of file\n"


class Comparison(NamedTuple):
    """`diff` leads from the current text to the proposed one. `merged` has both edits; None if they touch."""

    diff: str
    merged: str | None


async def compare(base: str | None, current: str, proposed: str) -> Comparison:
    """Compares a late edit of `base` with the current text. Without a base, `merged` is None."""
    if len(base or "") + len(current) + len(proposed) <= _SHORT:
        return _compared(base, current, proposed)
    return await asyncio.to_thread(_compared, base, current, proposed)


def _compared(base: str | None, current: str, proposed: str) -> Comparison:
    return Comparison(unified_diff(current, proposed), None if base is None else merge_texts(base, current, proposed))


def unified_diff(current: str, proposed: str) -> str:
    """Returns the change in the format of `patch`; empty if there is none."""
    old, new = _LINE.findall(current), _LINE.findall(proposed)
    hunks = list(LineMatcher(None, old, new).get_grouped_opcodes(_CONTEXT)) if current != proposed else []
    parts = ["--- current\n+++ proposed\n"] if hunks else []
    for hunk in hunks:
        (_, start, _, new_start, _), (_, _, end, _, new_end) = hunk[0], hunk[-1]
        parts.append(f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n")
        for kind, low, high, new_low, new_high in hunk:
            if kind == "equal":
                parts += [_shown(" ", line) for line in old[low:high]]
                continue
            parts += [_shown("-", line) for line in old[low:high]]
            parts += [_shown("+", line) for line in new[new_low:new_high]]
    return "".join(parts)


def _range(start: int, end: int) -> str:
    """Formats a range for a hunk: the first line, from 1, and the count. An empty range names the line before it."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _shown(sign: str, line: str) -> str:
    return sign + (line if line.endswith("\n") else line + _NO_NEWLINE)


def merge_texts(base: str, current: str, proposed: str) -> str | None:
    """Merges both edits of the base. Returns None if they change the same or adjacent lines."""
    # With this split, the end of the text is a line of its own. Adding lines at the end does not change the last line.
    old, ours, theirs = (text.split("\n") for text in (base, current, proposed))
    lines: list[str] = []
    # `merge3` types the matcher's results as tuples; difflib returns named tuples.
    merge = Merge3(old, ours, theirs, sequence_matcher=LineMatcher)  # type: ignore[arg-type]
    for group in merge.merge_groups():
        if group[0] == "conflict":
            return None
        lines += group[1]
    return "\n".join(lines)


class LineMatcher(SequenceMatcher[str]):
    """Finds the common lines of two texts, in bounded time."""

    def __init__(
        self,
        isjunk: Callable[[str], bool] | None = None,  # noqa: ARG002 - both libraries pass it
        a: Sequence[str] = "",
        b: Sequence[str] = "",
        autojunk: bool = True,  # noqa: ARG002 - same
    ) -> None:
        # Does not call the base class, whose constructor does the slow work.
        self.a, self.b = a, b
        self.opcodes = None
        self._left = _BUDGET

    def get_matching_blocks(self) -> list[Match]:
        """Returns the runs of common lines, in order. The last one is empty, at the end of both texts."""
        blocks: list[Match] = []
        start = new_start = length = 0
        for old, new in self._pairs(0, len(self.a), 0, len(self.b), _DEPTH):
            if length and (old, new) == (start + length, new_start + length):
                length += 1
                continue
            if length:
                blocks.append(Match(start, new_start, length))
            start, new_start, length = old, new, 1
        if length:
            blocks.append(Match(start, new_start, length))
        return [*blocks, Match(len(self.a), len(self.b), 0)]

    def _pairs(self, low: int, high: int, new_low: int, new_high: int, depth: int) -> Iterator[tuple[int, int]]:
        """Yields the positions of common lines in both texts, in order."""
        a, b = self.a, self.b
        while low < high and new_low < new_high and a[low] == b[new_low]:
            yield low, new_low
            low, new_low = low + 1, new_low + 1
        alike = 0
        while low < high - alike and new_low < new_high - alike and a[high - alike - 1] == b[new_high - alike - 1]:
            alike += 1
        high, new_high = high - alike, new_high - alike
        if low < high and new_low < new_high:
            anchors = _unique_pairs(a, low, high, b, new_low, new_high) if depth else []
            if anchors:
                for old, new in anchors:
                    yield from self._pairs(low, old, new_low, new, depth - 1)
                    yield old, new
                    low, new_low = old + 1, new + 1
                yield from self._pairs(low, high, new_low, new_high, depth - 1)
            elif (cost := (high - low) * (new_high - new_low)) <= self._left:
                self._left -= cost
                yield from _longest_pairs(a, low, high, b, new_low, new_high)
        yield from ((high + number, new_high + number) for number in range(alike))


def _unique_pairs(
    a: Sequence[str], low: int, high: int, b: Sequence[str], new_low: int, new_high: int
) -> list[tuple[int, int]]:
    """Returns lines that occur once in each range: the longest sequence with the same order in both."""
    counts, new_counts = Counter(a[low:high]), Counter(b[new_low:new_high])
    places = {b[new]: new for new in range(new_low, new_high) if new_counts[b[new]] == 1}
    pairs = [(old, places[a[old]]) for old in range(low, high) if counts[a[old]] == 1 and a[old] in places]
    # The longest increasing subsequence of positions. `ends` holds the smallest last position for each length.
    ends: list[int] = []
    lasts: list[int] = []
    before: list[int | None] = []
    for number, (_, new) in enumerate(pairs):
        length = bisect_left(ends, new)
        before.append(lasts[length - 1] if length else None)
        ends[length : length + 1] = [new]
        lasts[length : length + 1] = [number]
    found: list[tuple[int, int]] = []
    last = lasts[-1] if lasts else None
    while last is not None:
        found.append(pairs[last])
        last = before[last]
    return found[::-1]


def _longest_pairs(
    a: Sequence[str], low: int, high: int, b: Sequence[str], new_low: int, new_high: int
) -> Iterator[tuple[int, int]]:
    """Yields the longest common subsequence of the two ranges, by the table of all pairs."""
    width = new_high - new_low
    table = [[0] * (width + 1)]
    for old in range(high - 1, low - 1, -1):
        row, above = [0] * (width + 1), table[-1]
        for place in range(width - 1, -1, -1):
            is_common = a[old] == b[new_low + place]
            row[place] = above[place + 1] + 1 if is_common else max(above[place], row[place + 1])
        table.append(row)
    old, place = low, 0
    while old < high and place < width:
        if a[old] == b[new_low + place]:
            yield old, new_low + place
            old, place = old + 1, place + 1
        elif table[high - old - 1][place] >= table[high - old][place + 1]:
            old += 1
        else:
            place += 1
