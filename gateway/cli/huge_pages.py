"""Moves the memory of a process to huge pages, so that the processor finds its addresses faster.

A request touches objects all over the memory of the process: classes, functions, plans, and what they reference. With
pages of 4 KiB, these are more pages than the processor remembers, and it walks the page tables for the others. In a
virtual machine, it walks two sets of tables. Other processes that run in between make it forget more.

Most installations of Linux use huge pages only where a process asks for them. Since version 6.1, a process can ask for
the memory that it has already (`MADV_COLLAPSE`). The kernel leaves out what it cannot move, e.g. the stacks of threads.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_PAGE_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
# From the header asm-generic/mman-common.h of Linux.
_MADV_COLLAPSE = 25
# The access to private memory that can be written, and not executed.
_WRITABLE = "rw-p"
# What the kernel calls memory without a file: the heap of the C library, and everything that is mapped beside it.
_NAMES = {"[heap]", ""}


def use_huge_pages() -> int:
    """Moves the memory that the process has now. Returns the bytes that were moved.

    It moves nothing if the system has no huge pages, or not enough free memory in one piece.
    """
    moved = 0
    # Systems other than Linux have no such files, and may have no `madvise`.
    with contextlib.suppress(OSError, AttributeError, ValueError):
        size = int(_PAGE_SIZE.read_text())
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in regions(_MAPS.read_text(), size):
            if advise(start, end - start, _MADV_COLLAPSE) == 0:
                moved += end - start
    return moved


def regions(maps: str, size: int) -> Iterator[tuple[int, int]]:
    """Yields the addresses of the memory that has no file, without what does not fill a whole page of this size."""
    for line in maps.splitlines():
        addresses, access, _, _, inode, *name = line.split(maxsplit=5)
        if access == _WRITABLE and inode == "0" and "".join(name) in _NAMES:
            start, end = (int(address, 16) for address in addresses.split("-"))
            first, last = -(-start // size) * size, end // size * size
            if first < last:
                yield first, last
