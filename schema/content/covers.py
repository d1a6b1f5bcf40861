"""The covers of blog entries: the first pictures in their texts. Photos of the site have a size and thumbnails."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict

from portico.resolvers.content import nodes, photos
from portico.resolvers.documents import DocumentId
from portico.resolvers.errors import InvalidInput
from portico.resolvers.pictures import WIDTHS
from portico.schema.kinds import Kind

# What is read of a photo, besides what says who sees it.
PHOTO = {"slug": 1, "detail": 1, **dict.fromkeys(nodes.DISCRIMINATOR, 1)}
_PHOTO = re.compile(rf"{re.escape(photos.ASSETS)}/([0-9a-f]{{24}})/")


class CoverOf(TypedDict):
    """A cover. `photo_id` is that of a photo of this site; `photo` is the photo itself."""

    url: str
    alt: str
    photo_id: DocumentId | None
    photo: Mapping[str, Any] | None


def parse(picture: str) -> CoverOf | None:
    """Returns the cover for what `first_picture` has found, without its photo; None if it has found none."""
    url, _, alt = picture.partition("\n")
    if not url:
        return None
    path = _PHOTO.match(url)
    photo_id = None if path is None else Kind.document_id(path.group(1))
    return {"url": url, "alt": alt, "photo_id": photo_id, "photo": None}


def with_photo(cover: CoverOf, photo: Mapping[str, Any]) -> CoverOf | None:
    """Returns the cover with its photo, at the present address of its bytes; None if the photo has none."""
    url = photos.path_of_bytes(photo)
    return {**cover, "url": url, "photo": photo} if url else None


def size_of(cover: Mapping[str, Any], side: str) -> int | None:
    """Returns the width or the height of a cover in pixels, if it is a photo of this site."""
    photo = cover["photo"]
    return None if photo is None else photo["detail"].get(side)


def thumbnail_of(cover: CoverOf, width: int) -> str:
    """Returns the address of a thumbnail. Raises InvalidInput for a width below the least one."""
    if width < WIDTHS[0]:
        text = f"`width` must be {WIDTHS[0]} or more; got {width}."
        raise InvalidInput(text, "width", code=InvalidInput.OUT_OF_RANGE, least=WIDTHS[0])
    photo = cover["photo"]
    return cover["url"] if photo is None else photos.path_of_thumbnail(photo, width)
