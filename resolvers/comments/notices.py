"""What members are notified of: replies to their comments, and comments on what they have written.

Of a reply to one's own comment on one's own text, one is notified once, as of a reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from portico.resolvers.attachments import Hosts
from portico.resolvers.documents import Author, Database, Document
from portico.resolvers.notifying import NotificationSource

from . import discussions, storages
from .buckets import BUCKETS
from .comments import CommentRef
from .discussions import DOCUMENTS, EMBEDDED, PAGES
from .document_storage import COMMENTS
from .embedded_storage import EMBEDDED_DISCUSSIONS
from .events import POSTED

REPLIED, COMMENTED = "COMMENT_REPLIED", "CONTENT_COMMENTED"
_SHOWN = dict.fromkeys(("author", "parent", "posted", "deleted"), 1)


async def _notices(db: Database, hosts: Hosts, refs: Sequence[CommentRef]) -> Iterable[NotificationSource.Notice]:
    """Returns the notices of comments that are not deleted. Four commands, and more for several storages."""
    found: dict[CommentRef, Any] = dict(await storages.find_comments(db, refs, _SHOWN))
    posted = {ref: comment for ref, comment in found.items() if not comment.get("deleted")}
    parents = {comment["parent"] for comment in posted.values() if comment.get("parent") is not None}
    replied = await storages.find_comments(db, list(parents), _SHOWN) if parents else {}
    owners = await _owners(db, hosts, {ref.discussion for ref in posted})
    notices: list[NotificationSource.Notice] = []
    for ref, comment in posted.items():
        parent: Any = replied.get(comment["parent"]) if comment.get("parent") is not None else None
        above = None if parent is None or parent.get("deleted") else _author_of(parent)
        if above is not None:
            notices.append(_notice(REPLIED, above["id"], ref, comment))
        owner = owners.get(ref.discussion)
        if owner is not None and (above is None or owner != above["id"]):
            notices.append(_notice(COMMENTED, owner, ref, comment))
    return notices


def _notice(reason: str, to: str, ref: CommentRef, comment: Document) -> NotificationSource.Notice:
    return NotificationSource.Notice(
        reason=reason, to=to, about=("Comment", str(ref)), by=_author_of(comment), at=comment["posted"]
    )


def _author_of(comment: Document) -> Author | None:
    author: Author | None = comment.get("author")
    return author


async def _owners(db: Database, hosts: Hosts, wanted: set[Any]) -> dict[Any, str]:
    """Returns whose texts are discussed, by the `_id` of the discussion."""
    found = await discussions.find_by_ids(db, list(wanted), {"subject": 1}) if wanted else {}
    subjects = {key: (one["subject"]["kind"], one["subject"]["key"]) for key, one in found.items()}
    authors = await hosts.find_authors(db, list(dict.fromkeys(subjects.values())))
    return {key: authors[subject] for key, subject in subjects.items() if subject in authors}


def _of_documents(comment: Document, since: datetime) -> Iterator[CommentRef]:
    if "posted" in comment and comment["posted"] >= since:
        yield CommentRef(DOCUMENTS, comment["discussion"], comment["_id"])


def _of_discussion(document: Document, since: datetime) -> Iterator[CommentRef]:
    yield from _within(EMBEDDED, document["_id"], document["comments"], since)


def _of_page(page: Document, since: datetime) -> Iterator[CommentRef]:
    yield from _within(PAGES, page["discussion"], page["comments"], since)


def _within(storage: str, discussion: Any, comments: list[Document], since: datetime) -> Iterator[CommentRef]:
    yield from (CommentRef(storage, discussion, one["_id"]) for one in comments if one.get("posted", since) > since)


SOURCES: Sequence[NotificationSource] = (
    NotificationSource(
        name="comments",
        reasons={
            REPLIED: "Somebody has replied to the viewer's comment.",
            COMMENTED: "Somebody has commented on a text of the viewer.",
        },
        changes=POSTED,
        notices=_notices,
        backlogs=(
            NotificationSource.Backlog(COMMENTS, ("discussion", "posted"), _of_documents),
            NotificationSource.Backlog(EMBEDDED_DISCUSSIONS, ("comments._id", "comments.posted"), _of_discussion),
            NotificationSource.Backlog(BUCKETS, ("discussion", "comments._id", "comments.posted"), _of_page),
        ),
    ),
)
