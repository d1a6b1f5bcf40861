"""Limits of the catalog's settings that their types do not say."""

from __future__ import annotations

from portico.gateway.settings import PREFIX, SettingsError
from portico.resolvers.catalog.settings import CatalogSettings
from portico.resolvers.declarations import Resources

# A document has at most 16 MB, and that of an image also has its thumbnails.
MAX_IMAGE_BYTES = 12_000_000


def require(settings: Resources) -> None:
    """Raises SettingsError if a document could not hold an image."""
    given = settings.of(CatalogSettings).max_image_bytes
    if given > MAX_IMAGE_BYTES:
        raise SettingsError(f"{PREFIX}MAX_IMAGE_BYTES must be at most {MAX_IMAGE_BYTES:,}; got {given:,}.")
