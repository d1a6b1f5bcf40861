"""The settings of the catalog."""

from __future__ import annotations

from dataclasses import dataclass

from portico.resolvers.configuration import setting


@dataclass(frozen=True)
class CatalogSettings:
    max_counted: int = setting(
        10_000,
        "The most products that a count, the facets of a list, one page or a full-text search considers.",
    )
