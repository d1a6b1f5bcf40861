"""The settings of content."""

from __future__ import annotations

from dataclasses import dataclass

from portico.resolvers.configuration import HttpUrl, setting


@dataclass(frozen=True)
class ContentSettings:
    max_photo_pixels: int = setting(50_000_000, "The most pixels of a photo; of a moving one, of all its frames.")
    site_url: HttpUrl | None = setting(
        None, "Where the pages of the site are: links in feeds begin with it. Unset: where the gateway itself is."
    )
