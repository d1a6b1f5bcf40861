"""A process that serves moves its memory to huge pages, where the system has them."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from portico.gateway.cli import huge_pages
from portico.gateway.cli.huge_pages import regions, use_huge_pages

MB = 1024 * 1024
# The first version of Linux in which a process can move the memory that it has.
FIRST = (6, 1)
MAPS = """\
5577d3c00000-5577d3c01000 r--p 00000000 fe:00 26933                      /usr/bin/python
5577d4cc5000-5577d5fa2000 rw-p 00000000 00:00 0                          [heap]
7fe760000000-7fe760400000 rw-p 00000000 00:00 0
7fe761000000-7fe761400000 r-xp 00000000 00:00 0
7fe762000000-7fe762400000 rw-s 00000000 00:00 0
7fe763000000-7fe763400000 rw-p 00000000 fe:00 26934                      /usr/lib/with space.so
7fe764001000-7fe7641ff000 rw-p 00000000 00:00 0
7ffc11400000-7ffc11800000 rw-p 00000000 00:00 0                          [stack]
"""
MOVING = """
import re
from pathlib import Path
from portico.gateway.cli.huge_pages import use_huge_pages

def huge():
    return int(re.search(r"AnonHugePages: +([0-9]+) kB", Path("/proc/self/smaps_rollup").read_text())[1]) * 1024

objects = [[number] for number in range(500_000)]
before = huge()
moved = use_huge_pages()
print(moved, huge() - before, objects == [[number] for number in range(500_000)])
"""


def can_move() -> bool:
    if sys.platform != "linux" or not Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").exists():
        return False
    major, minor = platform.release().split(".")[:2]
    return (int(major), int(minor)) >= FIRST


@pytest.mark.skipif(not can_move(), reason="this system cannot move memory to huge pages")
def test_moves_objects_to_huge_pages() -> None:
    done = subprocess.run([sys.executable, "-c", MOVING], capture_output=True, text=True, check=True)
    moved, grown, are_the_same = done.stdout.split()
    assert are_the_same == "True"
    assert int(moved) > 20 * MB
    assert int(grown) >= int(moved)


def test_moves_private_memory_without_a_file() -> None:
    found = [(hex(start), hex(end)) for start, end in regions(MAPS, 2 * MB)]
    assert found == [("0x5577d4e00000", "0x5577d5e00000"), ("0x7fe760000000", "0x7fe760400000")]


def test_moves_nothing_where_the_system_has_no_huge_pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huge_pages, "_PAGE_SIZE", tmp_path / "missing")
    assert use_huge_pages() == 0
