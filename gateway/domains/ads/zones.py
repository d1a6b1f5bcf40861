"""What the domain declares about zones and campaigns."""

from __future__ import annotations

from collections.abc import Sequence

from portico.resolvers.domains import Invariant, Job
from portico.schema.ads import zones

KINDS = (zones.AD_ZONE,)
QUERIES = (zones.ZoneQuery,)
MUTATIONS: Sequence[type] = ()
JOBS: Sequence[Job] = ()
INVARIANTS: Sequence[Invariant] = ()
