"""The format of imported posts on walls."""

from __future__ import annotations

from typing import Any

from portico.gateway.imports.fields import (
    Record,
    as_day,
    as_key,
    as_text,
    as_texts,
    key_at,
    object_of,
    optional,
    text_at,
)
from portico.gateway.imports.runs import Importer
from portico.resolvers.errors import InvalidInput
from portico.resolvers.social.post_imports import WallPostRecord, import_wall_posts
from portico.resolvers.social.post_rules import LINK, STATUS
from portico.resolvers.social.posts import CIRCLES, PUBLIC, SELECTED

_AUDIENCES = (PUBLIC, CIRCLES, SELECTED)


def wall_post_record(given: Any) -> WallPostRecord:
    """Converts a post of an import. Raises InvalidInput.

    The format: {"id" or "slug", "author" or "authors", "text", "url"?, "posted" or "date"?, "to"?, "audience"?,
    "circles"?}. Ignores other fields, so that the front matter of a blog can be imported.
    """
    record = object_of(given, None)
    audience = optional(record, "audience", as_text) or PUBLIC
    if audience not in _AUDIENCES:
        raise InvalidInput(f"must be one of {', '.join(_AUDIENCES)}", "audience")
    url = optional(record, "url", as_text)
    text = text_at(record, "text") if url is None else optional(record, "text", as_text) or ""
    posted = "posted" if record.get("posted") is not None else "date"
    return WallPostRecord(
        id=key_at(record, "id" if record.get("id") is not None else "slug"),
        author=_author(record),
        kind=STATUS if url is None else LINK,
        detail={"text": text} if url is None else {"text": text, "url": url},
        posted=optional(record, posted, as_day),
        audience=audience,
        circles=optional(record, "circles", as_texts) or (),
        to=optional(record, "to", as_key),
    )


def _author(record: Record) -> dict[str, str]:
    """Returns {id, name}: of an object, or of a text that is both. Of several authors, the first one counts."""
    author = record.get("author")
    if isinstance(author, dict):
        found = object_of(author, {"id", "name"}, "author")
        key = as_key(text_at(found, "author", "id"), "author", "id").strip()
        return {"id": key, "name": optional(found, "name", as_text, "author") or key}
    names = [author] if author is not None else optional(record, "authors", as_texts) or [None]
    if not names or names[0] is None:
        raise InvalidInput("is missing", "author")
    name = as_key(names[0], "author").strip()
    return {"id": name, "name": name}


WALL_POSTS = Importer(wall_post_record, lambda record: record.id, import_wall_posts, is_parallel=True)
