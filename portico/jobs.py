"""Work in the background, what `portico doctor` checks, and what operators see and run."""

from __future__ import annotations

from portico.resolvers.declarations import Command, Counter, Gauge, Job
from portico.resolvers.problems import Invariant, Problem
from portico.resolvers.writes.sweeps import each, sweep

__all__ = [
    "Command",
    "Counter",
    "Gauge",
    "Invariant",
    "Job",
    "Problem",
    "each",
    "sweep",
]
