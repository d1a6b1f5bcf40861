"""A harness for tests of domains: a gateway on a real MongoDB, callers, crashes between any two commands, and budgets.

If Portico is installed, pytest finds the fixtures of `portico.pytest_plugin`, which create these objects.
"""

from __future__ import annotations

from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.gateway.settings import Settings

from .crashes import crash_matrix, crashing, database_of, stopping
from .gateways import Answer, Commands, Gateway, SettableClock, assert_budget, running
from .jobs import assert_invariants, run_jobs
from .kits import Failure, Given, Kit, Left, fails_with
from .stages import Case, Stage
from .trying import try_mutation
from .ways import WAYS

__all__ = [
    "WAYS",
    "Answer",
    "Case",
    "Commands",
    "Crash",
    "Failure",
    "FaultyDatabase",
    "Gateway",
    "Given",
    "Kit",
    "Left",
    "SettableClock",
    "Settings",
    "Stage",
    "assert_budget",
    "assert_invariants",
    "crash_matrix",
    "crashing",
    "database_of",
    "fails_with",
    "run_jobs",
    "running",
    "stopping",
    "try_mutation",
]
