"""Batched reads of log events by id, and of pages of them."""

from __future__ import annotations

from portico.loaders import keyed
from portico.resolvers.analytics.log_events import LOG_EVENTS

by_id = keyed.by_key(LOG_EVENTS)
pages = keyed.pages(LOG_EVENTS)
