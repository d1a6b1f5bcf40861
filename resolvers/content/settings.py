"""The settings of content."""

from __future__ import annotations

from dataclasses import dataclass

from portico.resolvers.configuration import HttpUrl, setting


@dataclass(frozen=True)
class ContentSettings:
    max_photo_pixels: int = setting(50_000_000, "The most pixels in a photo. For an animation: in all frames together.")
    site_url: HttpUrl | None = setting(
        None, "The URL of the site. Links in feeds begin with it. Unset: the URL of the gateway."
    )
