"""Batched reads of zones by key."""

from __future__ import annotations

from portico.loaders import declaring
from portico.resolvers.ads.zones import ZONES

by_id = declaring.by_key(ZONES)
