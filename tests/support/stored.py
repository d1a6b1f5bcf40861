"""What is stored: compared with the types that the collections declare, or deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from portico.resolvers.documents import CollectionSpec, Database
from tests.support.domains import COLLECTIONS
from tests.support.shapes import differences


async def assert_typed(db: Database) -> set[str]:
    """Asserts that every document has the type of its collection. Returns the collections that have documents.

    It knows nothing of collections without a type, which other packages can declare.
    """
    wrong: set[str] = set()
    met: set[str] = set()
    for spec in COLLECTIONS:
        async for document in db[spec.name].find():
            met.add(spec.name)
            if spec.document is not None:
                wrong.update(differences(_newest(spec, document), spec.document, spec.name))
    assert not wrong, "\n".join(sorted(wrong))
    return met


async def empty(db: Database, names: Iterable[str]) -> None:
    """Deletes all documents of these collections."""
    for name in names:
        await db[name].delete_many({})


def _newest(spec: CollectionSpec, document: dict[str, Any]) -> dict[str, Any]:
    is_old = spec.upgrade is not None and document.get("schema_version", 1) < spec.version
    return spec.upgrade(document) if is_old and spec.upgrade is not None else document
