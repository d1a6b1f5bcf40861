"""Work in the background, what `portico doctor` checks, and what operators see and run."""

from __future__ import annotations

from portico.resolvers.declarations import Command, CommandRun, Counter, Gauge, Job, JobRun, Wakeups
from portico.resolvers.problems import Invariant, Problem, Problems, named, problems_in
from portico.resolvers.writes.sweeps import STALE_AFTER, each, in_sequence, sweep

__all__ = [
    "STALE_AFTER",
    "Command",
    "CommandRun",
    "Counter",
    "Gauge",
    "Invariant",
    "Job",
    "JobRun",
    "Problem",
    "Problems",
    "Wakeups",
    "each",
    "in_sequence",
    "named",
    "problems_in",
    "sweep",
]
