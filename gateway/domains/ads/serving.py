"""What the domain declares about serving: profiles and counters."""

from __future__ import annotations

from collections.abc import Sequence

from portico.resolvers.domains import Invariant, Job, Service

SERVICES: Sequence[Service] = ()
QUERIES: Sequence[type] = ()
MUTATIONS: Sequence[type] = ()
JOBS: Sequence[Job] = ()
INVARIANTS: Sequence[Invariant] = ()
