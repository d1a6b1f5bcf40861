"""The form of imported photos and blog entries."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Any

from portico.gateway.imports.fields import (
    Record,
    as_author,
    as_day,
    as_key,
    as_text,
    as_texts,
    key_at,
    object_of,
    optional,
    text_at,
)
from portico.resolvers.content import nodes as content
from portico.resolvers.content.imports import PostRecord
from portico.resolvers.content.photo_imports import PhotoRecord
from portico.resolvers.errors import InvalidInput
from portico.resolvers.text import MAX_AUTHOR, require_text

from .gallery import SLUG, PictureFile


def photo_record(given: Any, records: Path) -> PhotoRecord:
    """The fields of `UploadPhotoInput`, with `file`, a name beside the file of the records, and `gallery`, a path.

    Other fields are passed over: lists of pictures tell much of them. Raises InvalidInput.
    """
    record = object_of(given, None)
    name = text_at(record, "file")
    return PhotoRecord(
        slug=(optional(record, "slug", as_key) or _slug_of(name)).strip(),
        title=text_at(record, "title"),
        gallery=optional(record, "gallery", as_text) or f"/{SLUG}",
        author=optional(record, "author", as_author) or "import",
        tags=tuple(optional(record, "tags", as_texts) or ()),
        read=PictureFile(records, name).read,
        checksum=optional(record, "sha256", as_text),
    )


def _slug_of(name: str) -> str:
    """The name of a file as a slug."""
    return re.sub(r"[^a-z0-9]+", "-", PurePath(name).stem.lower()).strip("-")


def post_record(given: Any) -> PostRecord:
    """A blog entry in the form of the front matter of a file with its text. Raises InvalidInput.

    {"slug", "title", "text", "blog"?: a path, "tags"?, "publishOn" or "date"?, "author" or "authors"?}. Other fields
    are passed over: front matter has many.
    """
    record = object_of(given, None)
    path = content.parse_path(text_at(record, "blog") if "blog" in record else "/blog")
    if path is None:
        raise InvalidInput("a path such as '/blog' is wanted", "blog")
    published = "publishOn" if record.get("publishOn") is not None else "date"
    return PostRecord(
        blog=path,
        slug=key_at(record, "slug"),
        title=text_at(record, "title"),
        text=text_at(record, "text"),
        author=_author(record),
        tags=optional(record, "tags", as_texts) or (),
        publish_on=optional(record, published, as_day),
    )


def _author(record: Record) -> dict[str, str]:
    """Who wrote it: {"id", "name"}, a name, or the names of several."""
    author = record.get("author")
    if isinstance(author, dict):
        found = object_of(author, {"id", "name"}, "author")
        return {
            name: require_text(text_at(found, "author", name), "author", name, longest=MAX_AUTHOR)
            for name in ("id", "name")
        }
    names = [as_text(author, "author")] if author is not None else optional(record, "authors", as_texts)
    name = as_author(", ".join(one.strip() for one in names or () if one.strip()), "author")
    return {"id": name, "name": name} if name else {"id": "import", "name": "Import"}
