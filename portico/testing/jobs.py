"""Runs the jobs of a gateway, and checks the invariants of its domains."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from portico.gateway.mongo.faults import Crash
from portico.resolvers.declarations import Domain, Job
from portico.resolvers.writes.intents import INTENTS
from portico.resolvers.writes.settler import Settler

from .gateways import Gateway, SettableClock


async def run_jobs(gateway: Gateway, clock: SettableClock, *names: str, empty: Sequence[Domain] | None = None) -> int:
    """Runs every job once, or those with these names. Returns how much was done. Raises Crash if a job crashes.

    Without names, skips the jobs of domains without any document, because they find nothing to do. Looks for these
    domains, unless `empty` names them.
    """
    all_jobs = gateway.domains.jobs
    assert set(names) <= {job.name for job in all_jobs}
    found = [] if names else await _without_documents(gateway) if empty is None else empty
    idle = [job for domain in found for job in domain.jobs]
    jobs = [job for job in all_jobs if job not in idle and (not names or job.name in names)]
    try:
        done = sum([await job.count(Job.Run(gateway.db, clock.now(), gateway.state.resources)) for job in jobs])
    except ExceptionGroup as failures:
        # A job continues after an item that fails. After a crash, nothing continues.
        if failures.split(Crash)[1] is None:
            raise Crash from failures
        raise
    # What a job has decided is settled a moment later, as after a call.
    await gateway.state.resources.of(Settler).settled(gateway.db)
    return done


async def assert_invariants(
    gateway: Gateway, *, in_flight: bool = False, empty: Sequence[Domain] | None = None
) -> None:
    """Asserts that all invariants hold, as `portico doctor` checks them. Skips domains without any document.

    With `in_flight`, ignores the problems that an unfinished write explains. Looks for the domains without documents,
    which takes a third of the time, unless `empty` names them.
    """
    skipped = await _without_documents(gateway) if empty is None else empty
    for domain in gateway.domains.all:
        if domain not in skipped:
            for invariant in gateway.domains.invariants_of(domain):
                found = [one async for one in invariant.found(gateway.db) if not (in_flight and one.is_open)]
                assert found == [], invariant.name


async def empty_domains(gateway: Gateway, changing: Collection[str]) -> list[Domain]:
    """Returns the domains that have no document and get none while only these collections change."""
    return [
        domain
        for domain in await _without_documents(gateway)
        if not any(spec.name in changing for spec in domain.collections)
    ]


async def _without_documents(gateway: Gateway) -> list[Domain]:
    """Returns the domains that have no document: none if there is an intent, because it may belong to any domain."""

    def first(name: str) -> list[Any]:
        return [{"$limit": 1}, {"$project": {"_id": {"$literal": name}}}]

    names = [spec.name for domain in gateway.domains.all for spec in domain.collections]
    others = [{"$unionWith": {"coll": name, "pipeline": first(name)}} for name in names]
    found = await gateway.db[INTENTS.name].aggregate([*first(INTENTS.name), *others])
    stored = {document["_id"] async for document in found}
    if INTENTS.name in stored:
        return []
    domains = [domain for domain in gateway.domains.all if domain.collections]
    return [domain for domain in domains if stored.isdisjoint(spec.name for spec in domain.collections)]
