"""Comments as exports of Reddit have them: each line what its API answers of one comment.

They name their threads, and not what these are about; that is said on the command line.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from portico.gateway.imports.runs import Importer, Option
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
    """What is discussed in threads of an export: by the names of the threads, and for all others.

    `storage` is for the discussions that are opened by them.
    """

    subjects: dict[str, str] = field(default_factory=dict)
    others: str | None = None
    storage: str = DOCUMENTS

    @classmethod
    def of(cls, given: Sequence[str], storage: str = DOCUMENTS) -> Threads:
        """Of texts `THREAD=SUBJECT` or `SUBJECT`. Raises ValueError where something is said twice."""
        subjects: dict[str, str] = {}
        for one in given:
            match = _THREAD.fullmatch(one)
            thread, subject = ("", one) if match is None else (match[1], match[2])
            if thread in subjects:
                raise ValueError("--on: each thread, and all others, can be about one thing.")
            subjects[thread] = subject
        return cls(subjects, subjects.pop("", None), storage)

    def record(self, given: Any) -> CommentRecord:
        """A comment of an export, or one in the form of our own. Raises InvalidInput."""
        if not isinstance(given, dict) or not all(name in given for name in _FIELDS):
            return comment_record(given)
        thread, parent = _name(given, "link_id", _LINK), _name(given, "parent_id", _COMMENT, _LINK)
        subject = self.subjects.get(thread, self.others)
        if subject is None:
            raise InvalidInput(f"say what {thread} is about: --on {thread}=PATH, or =SKU", "link_id")
        return comment_record(
            {
                "content" if subject.startswith("/") else "product": subject,
                "id": given.get("name") or f"{_COMMENT}{given.get('id')}",
                "parent": parent if parent.startswith(_COMMENT) else None,
                # One who has closed their account is null in some exports.
                "author": given.get("author") or "[deleted]",
                "posted": _instant(given, "created_utc"),
                # Very old ones only say that it was edited.
                "edited": None if isinstance(given.get("edited") or False, bool) else _instant(given, "edited"),
                "text": html.unescape(given["body"]) if isinstance(given["body"], str) else given["body"],
                "storage": self.storage,
            }
        )


def _name(given: dict[str, Any], field_name: str, *kinds: str) -> str:
    name = given[field_name]
    if not isinstance(name, str) or not name.startswith(kinds):
        raise InvalidInput(f"a name that begins with {' or '.join(kinds)} is wanted", field_name)
    return name


def _instant(given: dict[str, Any], field_name: str) -> str:
    """Seconds since 1970 as RFC 3339. Some exports have them as texts."""
    try:
        instant = datetime.fromtimestamp(float(given[field_name]), UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        raise InvalidInput("seconds since 1970 are wanted", field_name) from None
    return instant.isoformat().replace("+00:00", "Z")


def comments(on: Sequence[str] = (), storage: str = DOCUMENTS) -> Importer:
    """The importer of comments. Raises ValueError where the options contradict each other.

    Args:     on: what exported comments are about, as in `Threads.of`.  storage: of the discussions that they open.
    """
    threads = Threads.of(on, storage)
    return Importer(
        threads.record,
        lambda record: record.key,
        import_comments,
        awaits="comment",
        options=_OPTIONS,
        configure=comments,
    )


_OPTIONS = (
    Option(
        "on",
        list[str] | None,
        "What exported comments are about: a path or a SKU, for one thread, e.g. t3_n49rw=/about, or for all others; "
        "may be given several times.",
        "[THREAD=]SUBJECT",
    ),
    Option("storage", _Storage | None, "How the discussions are kept that exported comments open."),
)
