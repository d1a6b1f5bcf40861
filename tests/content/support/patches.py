"""Patches between two texts."""

from __future__ import annotations

import re

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")


def patched(text: str, diff: str) -> str:
    """Apply a unified diff as `patch` does: each hunk must match at its line numbers."""
    old = re.findall(r"[^\n]*\n|[^\n]+", text)
    rows = re.findall(r"[^\n]*\n", diff)
    if not rows:
        return text
    assert [row[:4] for row in rows[:2]] == ["--- ", "+++ "]
    new: list[str] = []
    done, number = 0, 2
    while number < len(rows):
        hunk = _HUNK.fullmatch(rows[number])
        assert hunk is not None, rows[number]
        start, count = int(hunk[1]), int(hunk[2] or 1)
        new_start, new_count = int(hunk[3]), int(hunk[4] or 1)
        first = start - 1 if count else start
        new += old[done:first]
        done = first
        assert len(new) == (new_start - 1 if new_count else new_start)
        number += 1
        end, new_end = done + count, len(new) + new_count
        while done < end or len(new) < new_end:
            sign, line = rows[number][0], rows[number][1:]
            number += 1
            if number < len(rows) and rows[number].startswith("\\ "):
                line = line[:-1]
                number += 1
            if sign in " -":
                assert old[done] == line
                done += 1
            if sign in " +":
                new.append(line)
    return "".join(new + old[done:])
