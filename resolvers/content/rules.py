"""What a content node may be: its title, text, tags, and where it may stand."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from portico.resolvers.documents import Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.text import check_length, require_text

from .nodes import BLOG, ENTRY, FOLDER, GALLERY, MAX_DEPTH, PAGE, PHOTO, SECTION

MAX_TITLE = 300
# Characters. With its revisions beside it, a node stays far from the bound of a document.
MAX_TEXT = 256 * 1024
MAX_TAG = 100
MAX_TAGS = 100

_HOLDER = {PAGE: FOLDER, ENTRY: BLOG, PHOTO: GALLERY}
_NOUNS = {SECTION: "section", PAGE: "page", ENTRY: "blog entry", PHOTO: "photo"}


def require_title(title: str | None) -> str:
    """A title in one line. Raises InvalidInput."""
    return " ".join(require_text(_plain(title or ""), "title", longest=MAX_TITLE).split())


def require_content(text: str) -> str:
    """A text as it was written; it may be empty. Raises InvalidInput."""
    return check_length(text, "text", longest=MAX_TEXT)


def require_tags(tags: Iterable[str]) -> list[str]:
    """The tags, each once, with single blanks. Raises InvalidInput."""
    found: dict[str, None] = {}
    for number, tag in enumerate(tags):
        if number == MAX_TAGS:
            raise InvalidInput(f"There may be {MAX_TAGS} tags.", "tags")
        found[" ".join(require_text(_plain(tag), "tags", str(number), longest=MAX_TAG).split())] = None
    return list(found)


def comparable_tag(tag: str) -> str:
    """The form in which `require_tags` keeps a tag, for who looks for it."""
    return " ".join(_plain(tag).split())


def _plain(text: str) -> str:
    """Composed, and without what is no character of a line: controls become blanks. A NUL stays, and is refused."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(" " if unicodedata.category(one) == "Cc" and one != "\0" else one for one in composed)


def require_place(type_: str, parent: Document | None, *path: str) -> None:
    """Whether a node of this type may stand below this one; with None at the root. Raises InvalidInput.

    A section stands anywhere below sections, and everything else below a section of its kind. Pages and sections may
    stand at the root.
    """
    if parent is None:
        if type_ in {ENTRY, PHOTO}:
            raise InvalidInput(f"A {_NOUNS[type_]} stands below a section of kind {_HOLDER[type_]}.", *path)
        return
    kind: Any = parent["detail"].get("kind")
    if parent["type"] != SECTION or (type_ != SECTION and kind != _HOLDER[type_]):
        wanted = "a section" if type_ == SECTION else f"a section of kind {_HOLDER[type_]}"
        raise InvalidInput(f"A {_NOUNS[type_]} stands below {wanted}.", *path)
    if len(parent["ancestors"]) + 2 > MAX_DEPTH:
        raise InvalidInput(f"Nodes stand at most {MAX_DEPTH} deep.", *path)
