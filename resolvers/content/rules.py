"""Rules for content nodes: titles, texts, tags and places."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import MAX_SLUG, check_length, require_text

from .nodes import BLOG, ENTRY, FOLDER, GALLERY, MAX_DEPTH, PAGE, PERMALINK, PHOTO, SECTION, NodeDocument

MAX_TITLE = 300
# Characters. A node stays far below the size limit of a document.
MAX_TEXT = 256 * 1024
MAX_TAG = 100
MAX_TAGS = 100
# Characters of a tag to search for, with its superfluous spaces.
_MAX_QUERY = 1_000

_HOLDER = {PAGE: FOLDER, ENTRY: BLOG, PHOTO: GALLERY}
_PERMALINK = re.compile(PERMALINK)
_NOUNS = {SECTION: "section", PAGE: "page", ENTRY: "blog entry", PHOTO: "photo"}


def require_permalink(slug: str | None) -> str:
    """Returns the slug of a node: it is case-sensitive and can have consecutive separators. Raises InvalidInput."""
    found = require_text(slug, "slug", longest=MAX_SLUG)
    if not _PERMALINK.fullmatch(found):
        message = "Slug may hold letters a to z, digits, and '-', '_' or '.' between them."
        raise InvalidInput(message, "slug", code=InvalidInput.WRONG_FORMAT, pattern=PERMALINK)
    return found


def require_title(title: str | None) -> str:
    """Returns the title in one line. Raises InvalidInput."""
    return " ".join(require_text(_plain(title or ""), "title", longest=MAX_TITLE).split())


def require_content(text: str) -> str:
    """Returns the text unchanged. It may be empty. Raises InvalidInput."""
    return check_length(text, "text", longest=MAX_TEXT)


def require_tags(tags: Iterable[str]) -> list[str]:
    """Returns the tags without duplicates, and with single spaces. Raises InvalidInput."""
    with InvalidInput.collect() as check:
        found: dict[str, None] = {}
        for number, tag in enumerate(tags):
            if number == MAX_TAGS:
                raise InvalidInput(
                    f"Up to {MAX_TAGS} tags are allowed.", "tags", code=InvalidInput.TOO_MANY, most=MAX_TAGS
                )
            found[check(_require_tag, tag, number)] = None
    return list(found)


def _require_tag(tag: str, number: int) -> str:
    return " ".join(require_text(_plain(tag), "tags", str(number), longest=MAX_TAG).split())


def comparable_tag(tag: str) -> str:
    """Returns the form in which `require_tags` stores a tag, for searches. Raises InvalidInput."""
    # A tag with a NUL is refused when it is looked for.
    if len(tag) > _MAX_QUERY:
        check_length(tag, "tag", longest=_MAX_QUERY)
    return " ".join(_plain(tag).split())


def _plain(text: str) -> str:
    """Returns the text in composed form, with spaces for control characters. Keeps NUL, so that it is refused later."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(" " if unicodedata.category(one) == "Cc" and one != "\0" else one for one in composed)


def require_place(type_: str, parent: NodeDocument | None, *path: str) -> None:
    """Raises InvalidInput unless a node of this type is allowed below this parent; None is the root.

    Sections are allowed below all sections. Other nodes are allowed below sections of one kind. Pages and sections are
    also allowed at the root.
    """
    if parent is None:
        if type_ in {ENTRY, PHOTO}:
            text = f"A {_NOUNS[type_]} must be below a section of kind {_HOLDER[type_]}."
            raise InvalidInput(text, *path, code=InvalidInput.REQUIRED)
        return
    kind: Any = parent["detail"].get("kind")
    if parent["type"] != SECTION or (type_ != SECTION and kind != _HOLDER[type_]):
        wanted = "a section" if type_ == SECTION else f"a section of kind {_HOLDER[type_]}"
        raise InvalidInput(f"A {_NOUNS[type_]} must be below {wanted}.", *path, code=InvalidInput.NOT_ALLOWED)
    if len(parent["ancestors"]) + 2 > MAX_DEPTH:
        raise InvalidInput(
            f"A path can have up to {MAX_DEPTH} slugs.", *path, code=InvalidInput.TOO_DEEP, most=MAX_DEPTH
        )
