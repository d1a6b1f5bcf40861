"""Batched reads of categories by id and by slug, of their descendants, and of pages for many parents."""

from __future__ import annotations

from portico.loaders import declaring
from portico.resolvers.catalog import categories

by_id = declaring.batched(categories.find_by_ids)
by_slug = declaring.batched(categories.find_by_slugs)
descendant_ids = declaring.batched(categories.find_descendant_ids)
pages = declaring.pages(categories.CATEGORIES)
