"""Batched reads of zones by key."""

from __future__ import annotations

from portico.loaders import keyed
from portico.resolvers.ads.zones import ZONES

by_id = keyed.by_key(ZONES)
