"""Files that a domain imports, and its demo data."""

from __future__ import annotations

from portico.gateway.demo.loading import Demo
from portico.gateway.imports.fields import (
    as_day,
    as_instant,
    as_list,
    as_number,
    as_text,
    as_texts,
    object_of,
    optional,
    text_at,
)
from portico.gateway.imports.runs import Importer, Option
from portico.resolvers.import_outcomes import Outcome, each_alone, outcome_of

__all__ = [
    "Demo",
    "Importer",
    "Option",
    "Outcome",
    "as_day",
    "as_instant",
    "as_list",
    "as_number",
    "as_text",
    "as_texts",
    "each_alone",
    "object_of",
    "optional",
    "outcome_of",
    "text_at",
]
