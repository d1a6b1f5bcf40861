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
