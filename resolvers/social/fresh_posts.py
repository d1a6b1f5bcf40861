"""Posts that this process has stored, and that its own job delivers.

Such a post is stored as claimed (see `fan_out`), so that the job need neither search for it nor claim it. If the
process stops, the lease expires, and any worker takes the post.

An author has one such post at a time; further ones wait in line. And a worker takes every other batch from the line. So
neither a burst of one author nor a stream of fresh posts delays the posts of others (see `fan_out_order`).
"""

from __future__ import annotations

from collections.abc import Collection
from secrets import token_hex

from portico.resolvers.documents import Document


class FreshPosts:
    """The fresh posts of a process. If `most` of them wait, further posts wait in line; with 0, all posts."""

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._waiting: list[Document] = []

    def claim(self, author: str) -> str | None:
        """Returns the claim with which a post of this author is to be stored; None if it has to wait in line."""
        if len(self._waiting) >= self._most or any(post["by"]["id"] == author for post in self._waiting):
            return None
        return token_hex(16)

    def add(self, post: Document) -> None:
        """Adds a post that was stored with its claim."""
        self._waiting.append(post)

    def take(self, busy: Collection[str]) -> Document | None:
        """Removes the first post whose author is not busy, and returns it."""
        for number, post in enumerate(self._waiting):
            if post["by"]["id"] not in busy:
                return self._waiting.pop(number)
        return None
