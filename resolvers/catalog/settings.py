"""The settings of the catalog."""

from __future__ import annotations

from dataclasses import dataclass

from portico.resolvers.configuration import setting


@dataclass(frozen=True)
class CatalogSettings:
    max_counted: int = setting(
        10_000,
        "The most products that MongoDB reads for one page, one count, or the facets of one list; also the most "
        "categories that the lists of one operation cover.",
    )
    max_image_bytes: int = setting(8_388_608, "The largest file of an image, in bytes. At most 12 MB.")
    import_private_hosts: bool = setting(
        False,
        "Whether `portico import images` downloads from hosts with private addresses, e.g. in your own network.",
    )
    max_image_pixels: int = setting(
        25_000_000, "The most pixels in an image. For an animation: in all frames together."
    )
