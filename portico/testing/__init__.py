"""A harness for tests of domains: a gateway on a real MongoDB, callers, crashes between any two commands, and budgets.

If Portico is installed, pytest finds the fixtures of `portico.pytest_plugin`, which create these objects.
"""

from __future__ import annotations

from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.gateway.settings import Settings

from .crashes import crash_matrix, crashing, database_of, stopping
from .gateways import Answer, Commands, Gateway, SettableClock, assert_budget, running
from .jobs import assert_invariants, run_jobs

__all__ = [
    "Answer",
    "Commands",
    "Crash",
    "FaultyDatabase",
    "Gateway",
    "SettableClock",
    "Settings",
    "assert_budget",
    "assert_invariants",
    "crash_matrix",
    "crashing",
    "database_of",
    "run_jobs",
    "running",
    "stopping",
]
