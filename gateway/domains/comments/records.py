"""The format of imported comments."""

from __future__ import annotations

from typing import Any

from portico.gateway.imports.fields import as_instant, as_key, as_text, object_of, optional, text_at
from portico.resolvers.comments.discussions import DOCUMENTS
from portico.resolvers.comments.imports import CommentRecord
from portico.resolvers.comments.storages import STORAGES
from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import check_length

# Characters of a path or a SKU.
_MAX_SUBJECT = 3_216


def comment_record(given: Any) -> CommentRecord:
    """Converts a comment of an import. Raises InvalidInput.

    The format: {"content": a path or "product": a SKU, "id", "parent"?: an id, "author", "posted", "text", "edited"?,
    "storage"?}.
    """
    record = object_of(given, {"content", "product", "id", "parent", "author", "posted", "text", "edited", "storage"})
    subjects = [name for name in ("content", "product") if record.get(name) is not None]
    if len(subjects) != 1:
        raise InvalidInput("either `content` or `product` is required")
    subject = check_length(text_at(record, subjects[0]), subjects[0], longest=_MAX_SUBJECT)
    if subject.startswith("/") is not (subjects[0] == "content"):
        raise InvalidInput("`content` must begin with a slash, and `product` must not", subjects[0])
    storage = optional(record, "storage", as_text) or DOCUMENTS
    if storage not in STORAGES:
        raise InvalidInput(f"it must be one of {', '.join(STORAGES)}", "storage")
    return CommentRecord(
        subject=subject,
        name=as_key(text_at(record, "id"), "id"),
        parent=optional(record, "parent", as_key),
        author=text_at(record, "author"),
        text=text_at(record, "text"),
        posted=as_instant(record.get("posted"), "posted"),
        edited=optional(record, "edited", as_instant),
        storage=storage,
    )
