"""Files that a domain imports, and its demo data."""

from __future__ import annotations

from portico.gateway.demo.loading import Demo
from portico.gateway.imports import fields
from portico.gateway.imports.runs import Importer
from portico.resolvers.import_outcomes import Outcome, outcome_of

__all__ = [
    "Demo",
    "Importer",
    "Outcome",
    "fields",
    "outcome_of",
]
