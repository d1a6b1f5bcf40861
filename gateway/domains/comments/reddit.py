"""Imports comments from Reddit exports. Each line is a comment in the format of Reddit's API.

The exports name threads, but not their subjects. You give these on the command line.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from portico.gateway.imports.runs import Importer
from portico.resolvers.comments.discussions import DOCUMENTS
from portico.resolvers.comments.imports import CommentRecord, import_comments
from portico.resolvers.comments.storages import STORAGES
from portico.resolvers.errors import InvalidInput

from .records import comment_record

# Typer shows the members of a text enumeration as choices.
_Storage = Enum("_Storage", {name: name for name in STORAGES}, type=str)  # type: ignore[misc]
_THREAD = re.compile(r"(t3_[a-z0-9]+)=(.+)", re.DOTALL)
_COMMENT, _LINK = "t1_", "t3_"
_FIELDS = ("link_id", "parent_id", "body", "created_utc")


@dataclass(frozen=True)
class Threads:
    """The subjects of an export's threads, by the names of threads, and for all other threads.

    `storage` is the storage of new discussions.
    """

    subjects: dict[str, str] = field(default_factory=dict)
    others: str | None = None
    storage: str = DOCUMENTS

    @classmethod
    def of(cls, given: Sequence[str], storage: str = DOCUMENTS) -> Threads:
        """Parses texts `THREAD=SUBJECT` or `SUBJECT`. Raises ValueError if a thread occurs twice."""
        subjects: dict[str, str] = {}
        for one in given:
            match = _THREAD.fullmatch(one)
            thread, subject = ("", one) if match is None else (match[1], match[2])
            if thread in subjects:
                raise ValueError(f"--on names two subjects for {thread or 'all other threads'}; give only one.")
            subjects[thread] = subject
        return cls(subjects, subjects.pop("", None), storage)

    def record(self, given: Any) -> CommentRecord:
        """Converts a comment of an export, or one in the format of `records`. Raises InvalidInput."""
        if not isinstance(given, dict) or not all(name in given for name in _FIELDS):
            return comment_record(given)
        thread, parent = _name(given, "link_id", _LINK), _name(given, "parent_id", _COMMENT, _LINK)
        subject = self.subjects.get(thread, self.others)
        if subject is None:
            raise InvalidInput(f"give the subject of {thread}: --on {thread}=PATH, or =SKU", "link_id")
        return comment_record(
            {
                "content" if subject.startswith("/") else "product": subject,
                "id": given.get("name") or f"{_COMMENT}{given.get('id')}",
                "parent": parent if parent.startswith(_COMMENT) else None,
                # In some exports, authors who have closed their account are null.
                "author": given.get("author") or "[deleted]",
                "posted": _instant(given, "created_utc"),
                # Very old comments only have `true`.
                "edited": None if isinstance(given.get("edited") or False, bool) else _instant(given, "edited"),
                "text": html.unescape(given["body"]) if isinstance(given["body"], str) else given["body"],
                "storage": self.storage,
            }
        )


def _name(given: dict[str, Any], field_name: str, *kinds: str) -> str:
    name = given[field_name]
    if not isinstance(name, str) or not name.startswith(kinds):
        raise InvalidInput(f"it must begin with {' or '.join(kinds)}", field_name)
    return name


def _instant(given: dict[str, Any], field_name: str) -> str:
    """Converts seconds since 1970, a number or a string, to RFC 3339."""
    try:
        instant = datetime.fromtimestamp(float(given[field_name]), UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        raise InvalidInput("it must be in seconds since 1970", field_name) from None
    return instant.isoformat().replace("+00:00", "Z")


def comments(on: Sequence[str] = (), storage: str = DOCUMENTS) -> Importer:
    """Returns the importer of comments. Raises ValueError if the options contradict each other.

    Args:     on: the subjects of threads, as in `Threads.of`.  storage: of new discussions.
    """
    threads = Threads.of(on, storage)
    return Importer(
        threads.record,
        lambda record: record.key,
        import_comments,
        has_resources=True,
        awaits="comment",
        options=_OPTIONS,
        configure=comments,
    )


_OPTIONS = (
    Importer.Option(
        "on",
        list[str] | None,
        "The subject of a thread, a path or a SKU, e.g. t3_n49rw=/about; without a thread, the subject of all others. "
        "You can repeat this option.",
        "[THREAD=]SUBJECT",
    ),
    Importer.Option("storage", _Storage | None, "The storage of new discussions."),
)
