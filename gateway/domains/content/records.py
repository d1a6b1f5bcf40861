"""The formats of imported photos and blog entries."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
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
from portico.gateway.pictures.picture_files import PictureFile
from portico.resolvers.content import nodes as content
from portico.resolvers.content.imports import PostRecord
from portico.resolvers.content.photo_imports import PhotoRecord
from portico.resolvers.documents import Author
from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import MAX_AUTHOR, require_line

# The slug of the section of photos whose records do not name one. The demo's photos are there, too.
GALLERY = "gallery"


def photo_record(given: Any, records: Path) -> PhotoRecord:
    """Converts a photo of an import. Raises InvalidInput.

    The fields are those of `UploadPhotoInput`, but `file` is the name of a file next to the import file, and `gallery`
    is a path. Ignores other fields, because lists of pictures often have many.
    """
    record = object_of(given, None)
    name = text_at(record, "file")
    return PhotoRecord(
        slug=(optional(record, "slug", as_key) or _slug_of(name)).strip(),
        title=text_at(record, "title"),
        gallery=optional(record, "gallery", as_text) or f"/{GALLERY}",
        author=optional(record, "author", _as_author) or "import",
        tags=tuple(optional(record, "tags", as_texts) or ()),
        read=PictureFile(records, name).read,
        checksum=optional(record, "sha256", as_text),
    )


def _slug_of(name: str) -> str:
    """Returns a slug made from a file name."""
    return re.sub(r"[^a-z0-9]+", "-", PurePath(name).stem.lower()).strip("-")


def post_record(given: Any) -> PostRecord:
    """Converts a blog entry of an import, i.e. the front matter of a file and its text. Raises InvalidInput.

    The format: {"slug", "title", "text", "blog"?: a path, "tags"?, "publishOn" or "date"?, "author" or "authors"?}.
    Ignores other fields, because front matter often has many.
    """
    record = object_of(given, None)
    path = content.parse_path(text_at(record, "blog") if "blog" in record else "/blog")
    if path is None:
        raise InvalidInput("it must be a path, e.g. '/blog'", "blog")
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


def _author(record: Record) -> Author:
    """Returns the author, given as {"id", "name"}, a name, or a list of names."""
    author = record.get("author")
    if isinstance(author, dict):
        found = object_of(author, {"id", "name"}, "author")
        key, name = (
            require_line(text_at(found, "author", part), "author", part, longest=MAX_AUTHOR) for part in ("id", "name")
        )
        return {"id": key, "name": name}
    names = [as_text(author, "author")] if author is not None else optional(record, "authors", as_texts)
    name = _as_author(", ".join(one.strip() for one in names or () if one.strip()), "author")
    return {"id": name, "name": name} if name else {"id": "import", "name": "Import"}


def _as_author(value: Any, *path: str) -> str:
    """Returns the name of an author, which may be empty."""
    name = as_text(value, *path).strip()
    return name and require_line(name, *path, longest=MAX_AUTHOR)
