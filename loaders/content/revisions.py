"""Batched reads of revisions by id."""

from __future__ import annotations

from portico.loaders import declaring
from portico.resolvers.content import revisions

by_id = declaring.batched(revisions.find_by_ids)
