"""Batched reads of categories by id and by slug, of their descendants, and of pages for many parents."""

from __future__ import annotations

from portico.loaders.declaring import batched, in_order
from portico.resolvers.catalog import categories

by_id = batched(categories.find_by_ids)
by_slug = batched(categories.find_by_slugs)
descendant_ids = batched(categories.find_descendant_ids)
pages = in_order(categories.find_category_pages)
