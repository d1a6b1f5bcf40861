"""A process that ends after its answers."""

from __future__ import annotations

from portico.resolvers.documents import Database
from portico.resolvers.writes.settler import Bulks, Settler


class Never(Settler):
    """Takes over what is decided, and leaves it to the job, like a process that ends after its answer."""

    def add(self, db: Database, *steps: Bulks, otherwise: object = None) -> bool:  # noqa: ARG002 - their names
        return True
