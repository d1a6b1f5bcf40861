"""Batched reads of revisions by id, and of pages of revisions."""

from __future__ import annotations

from portico.loaders.declaring import batched, in_order
from portico.resolvers.content import revisions

by_id = batched(revisions.find_by_ids)
pages = in_order(revisions.find_revision_pages)
