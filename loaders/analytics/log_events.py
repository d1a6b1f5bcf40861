"""Batched reads of log events by id, and of pages of them."""

from __future__ import annotations

from portico.loaders import declaring
from portico.resolvers.analytics.log_events import LOG_EVENTS

by_id = declaring.by_key(LOG_EVENTS)
pages = declaring.pages(LOG_EVENTS)
