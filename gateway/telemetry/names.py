"""Bounds the names that clients choose, because each different one is a series of its own in a metrics store."""

from __future__ import annotations

OTHER = "other"
# A longer name is cut in spans, and counts as another one in metrics.
LONGEST = 100


class Names:
    """The first `most` different names. All later ones are `other`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def bounded(self, name: str) -> str:
        """Returns the name, or `other` for one that is too long or comes too late."""
        if name not in self._known:
            if len(self._known) >= self._most or len(name) > LONGEST:
                return OTHER
            self._known.add(name)
        return name
