"""Checks which paths of the changes in a stream a source reads."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from .documents import Document

# The fields of the changes in a stream. Source: the reference of change events in the manual of MongoDB.
_FIELDS = (
    *("_id", "operationType", "ns", "to", "documentKey", "fullDocument", "fullDocumentBeforeChange"),
    *("updateDescription", "operationDescription", "clusterTime", "wallTime", "collectionUUID"),
    *("lsid", "txnNumber", "splitEvent"),
)
# The operations whose changes have no document.
_WITHOUT_DOCUMENT = {"update", "delete"}


def require_paths(match: Document, paths: Sequence[str]) -> None:
    """Raises TypeError or ValueError for a path that no change has, or none of those that `match` finds."""
    if isinstance(paths, str):
        raise TypeError(f"`paths` of a change source must be a sequence of paths; got {paths!r}.")
    for path in paths:
        if not all(name and not name.startswith("$") for name in path.split(".")):
            raise ValueError(f"`paths` of a change source has {path!r}, which is not the path of a field.")
        if (first := path.partition(".")[0]) not in _FIELDS:
            advice = "".join(f" Did you mean {one}?" for one in difflib.get_close_matches(first, _FIELDS, n=1))
            raise ValueError(f"`paths` of a change source has {path!r}, but a change has no {first!r}.{advice}")

    operations: Any = match.get("operationType")
    named = operations.get("$in", ()) if isinstance(operations, dict) else [operations]
    of_document = [path for path in (*paths, *match) if path.split(".")[0] == "fullDocument"]
    if named and of_document and _WITHOUT_DOCUMENT.issuperset(named):
        raise ValueError(
            f"a change source of the operation {' or '.join(named)} has {of_document[0]!r}, but such a change has "
            "no fullDocument. Let each update set what the event needs, and read it from updateDescription."
        )
