"""`/metrics`, in the text format of Prometheus. Each worker reports its own numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from portico.gateway.operations.execution import Executor
from portico.gateway.outages import log_fault
from portico.gateway.work.job_runs import AllRuns
from portico.resolvers.declarations import Counter, Gauge, Resources
from portico.resolvers.documents import Database

from .cache.kept_answers import CacheCounts
from .live import Counts
from .live_queries import LiveCounts
from .reads.feed import FeedCounts

# How long a gauge may wait for the database.
_MEASURE_SECONDS = 2.0


class OperationMetrics(Collector):
    """Counts of the operations that ran, read only when `/metrics` is requested."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def collect(self) -> Iterator[Metric]:
        plans = self._executor.plans
        compiled = CounterMetricFamily("portico_operations_compiled", "Operations that ran as compiled plans.")
        compiled.add_metric([], plans.compiled)
        yield compiled
        others = CounterMetricFamily(
            "portico_operations_not_compiled",
            "Operations that graphql-core ran, by what is not compiled.",
            labels=["what"],
        )
        for what, count in plans.fallbacks.items():
            others.add_metric([what], count)
        yield others
        untrusted = CounterMetricFamily(
            "portico_untrusted_documents",
            "Operations that are not trusted documents, by what became of them.",
            labels=["outcome"],
        )
        for outcome, count in self._executor.references.untrusted.items():
            untrusted.add_metric([outcome], count)
        yield untrusted


class AdmissionMetrics(Collector):
    """What runs, waits and was refused, by kind. A mutation is first counted as a query, until it is parsed."""

    def __init__(self, executor: Executor) -> None:
        self._by_kind = {
            "query": executor.queries,
            "mutation": executor.mutations,
            "upload": executor.uploads,
        }

    def collect(self) -> Iterator[Metric]:
        running = GaugeMetricFamily("portico_operations_running", "Operations that run.", labels=["kind"])
        queued = GaugeMetricFamily("portico_operations_queued", "Operations that wait to run.", labels=["kind"])
        waiting = GaugeMetricFamily(
            "portico_operations_waiting", "Operations that wait for something other than MongoDB.", labels=["kind"]
        )
        refused = CounterMetricFamily(
            "portico_operations_refused", "Operations refused as OVERLOADED.", labels=["kind"]
        )
        for kind, admission in self._by_kind.items():
            running.add_metric([kind], admission.running)
            queued.add_metric([kind], admission.queued)
            waiting.add_metric([kind], admission.waiting)
            refused.add_metric([kind], admission.refused)
        yield from (running, queued, waiting, refused)


class SubscriptionMetrics(Collector):
    """Counts of subscriptions, their events, and why they ended."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        counts = self._counts
        for name, text, number in (
            ("portico_sockets", "Open WebSockets.", counts.sockets),
            ("portico_subscriptions", "Active subscriptions.", counts.listeners),
        ):
            yield GaugeMetricFamily(name, text, number)
        for name, text, number in (
            ("portico_change_streams", "Change streams that were opened.", counts.streams),
            ("portico_change_stream_interruptions", "Interruptions of a change stream.", counts.interruptions),
            ("portico_events", "Events that the change streams received.", counts.events),
            ("portico_events_delivered", "Events delivered to subscriptions.", counts.deliveries),
            ("portico_event_runs", "Selections that ran for an event. Equal subscriptions share a run.", counts.runs),
            ("portico_event_retries", "Runs repeated because the database was unavailable.", counts.retries),
            ("portico_subscriptions_resumed", "Subscriptions that continued after their last event.", counts.resumed),
            ("portico_replays", "Change streams opened to read missed events again.", counts.replays),
            ("portico_connections_unread", "Connections dropped because their clients did not read.", counts.unread),
        ):
            yield CounterMetricFamily(name, text, number)
        failures = CounterMetricFamily(
            "portico_event_failures",
            "Changes of which a domain failed to make events, by collection.",
            labels=["collection"],
        )
        for collections, number in counts.failures.items():
            failures.add_metric([collections], number)
        yield failures
        ended = CounterMetricFamily(
            "portico_subscriptions_ended", "Subscriptions that the gateway ended, by error code.", labels=["code"]
        )
        for code, number in counts.ended.items():
            ended.add_metric([code], number)
        yield ended


class LiveMetrics(Collector):
    """Counts of live queries, and of the changes that they follow."""

    def __init__(self, counts: LiveCounts, changes: FeedCounts) -> None:
        self._counts = counts
        self._changes = changes

    def collect(self) -> Iterator[Metric]:
        counts, changes = self._counts, self._changes
        for name, text, number in (
            ("portico_live_queries", "Different live queries.", counts.queries),
            ("portico_live_listeners", "Clients of live queries.", counts.listeners),
        ):
            yield GaugeMetricFamily(name, text, number)
        for name, text, number in (
            ("portico_live_runs", "Runs of live queries. Equal live queries share a run.", counts.runs),
            ("portico_live_vain_runs", "Runs of live queries whose answer was the former one.", counts.vain),
            ("portico_live_answers", "Answers sent to clients of live queries.", counts.sent),
            ("portico_changes", "Changes that live queries have followed.", changes.changes),
            ("portico_changes_read", "Changed documents that were read to find what they affect.", changes.looked_up),
            ("portico_live_checks", "Parts of live queries that were read again to compare them.", changes.checks.made),
            ("portico_live_equal_checks", "Those of them that were the same.", changes.checks.equal),
            ("portico_changes_affecting", "Runs that changes have affected.", changes.affected),
            ("portico_changes_lost", "Times that changes were lost, and all live queries ran.", changes.losses),
        ):
            yield CounterMetricFamily(name, text, number)


class CacheMetrics(Collector):
    """Counts of kept answers."""

    def __init__(self, counts: CacheCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        counts = self._counts
        for name, text, number in (
            ("portico_cache_answers", "Answers in the cache.", counts.answers),
            ("portico_cache_bytes", "About how many bytes they take.", counts.bytes),
        ):
            yield GaugeMetricFamily(name, text, number)
        for name, text, number in (
            ("portico_cache_hits", "Queries that were answered from the cache.", counts.hits),
            ("portico_cache_misses", "Queries that ran although there is a cache.", counts.misses),
            ("portico_cache_stored", "Answers that were kept.", counts.stored),
            ("portico_cache_affected", "Kept answers that a change has affected.", counts.affected),
            ("portico_cache_vain", "Kept answers that a change has affected before their first use.", counts.vain),
            ("portico_cache_looks", "Looks at the change stream of the cache.", counts.looks),
            ("portico_cache_late_looks", "Looks that took too long, so that their queries ran.", counts.late),
            (
                "portico_cache_losses",
                "Times that the change stream was lost, and all kept answers went.",
                counts.losses,
            ),
        ):
            yield CounterMetricFamily(name, text, number)


class JobMetrics(Collector):
    """What the jobs of this worker did, and how long their current runs take."""

    def __init__(self, runs: AllRuns) -> None:
        self._runs = runs

    def collect(self) -> Iterator[Metric]:
        counted = CounterMetricFamily("portico_job_runs", "Runs of a job that have ended.", labels=["job"])
        failed = CounterMetricFamily("portico_job_failures", "Runs of a job that failed.", labels=["job"])
        done = CounterMetricFamily("portico_job_done", "What the runs of a job finished or removed.", labels=["job"])
        running = GaugeMetricFamily(
            "portico_job_running_seconds",
            "How long the current run of a job has taken; 0 between runs.",
            labels=["job"],
        )
        for name, runs in sorted(self._runs.by_job.items()):
            counted.add_metric([name], runs.runs)
            failed.add_metric([name], runs.failures)
            done.add_metric([name], runs.done)
            running.add_metric([name], runs.running_seconds)
        yield from (counted, failed, done, running)


class _Measured(Collector):
    """The latest values of the gauges of the domains, and how often each could not be read."""

    def __init__(self) -> None:
        self.values: Mapping[Gauge, float] = {}
        self.failures: dict[str, int] = {}

    def collect(self) -> Iterator[Metric]:
        for gauge, value in self.values.items():
            yield GaugeMetricFamily(gauge.name, gauge.about, value)
        failed = CounterMetricFamily(
            "portico_metric_failures", "Numbers of domains that could not be read, by name.", labels=["metric"]
        )
        for name, number in self.failures.items():
            failed.add_metric([name], number)
        yield failed


class _Counted(Collector):
    """The latest values of the counters of the domains."""

    def __init__(self) -> None:
        self.values: Mapping[Counter, float] = {}

    def collect(self) -> Iterator[Metric]:
        for counter, value in self.values.items():
            yield CounterMetricFamily(counter.name, counter.about, value)


class Metrics:
    """The metrics of one gateway. A number of a domain that fails, or is not there in time, is left out and counted."""

    def __init__(
        self,
        collectors: Sequence[Collector],
        gauges: Sequence[Gauge] = (),
        counters: Sequence[Counter] = (),
    ) -> None:
        self._gauges = gauges
        self._counters = counters
        self._measured = _Measured()
        self._counted = _Counted()
        self._registry = CollectorRegistry()
        for collector in collectors:
            self._registry.register(collector)
        self._registry.register(self._measured)
        self._registry.register(self._counted)

    async def response(self, db: Database, now: datetime, resources: Resources) -> Response:
        self._counted.values = self._count(resources)
        self._measured.values = await self._measure(db, now)
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _count(self, resources: Resources) -> Mapping[Counter, float]:
        found = {}
        for counter in self._counters:
            try:
                found[counter] = float(counter.read(resources))
            except Exception as error:  # noqa: BLE001 - the other numbers must be shown
                self._failed(counter.name, error)
        return found

    async def _measure(self, db: Database, now: datetime) -> Mapping[Gauge, float]:
        values = await asyncio.gather(*(self._read(gauge, db, now) for gauge in self._gauges))
        return {gauge: value for gauge, value in zip(self._gauges, values, strict=True) if value is not None}

    async def _read(self, gauge: Gauge, db: Database, now: datetime) -> float | None:
        try:
            async with asyncio.timeout(_MEASURE_SECONDS):
                return float(await gauge.read(db, now))
        except Exception as error:  # noqa: BLE001 - the other numbers must be shown
            self._failed(gauge.name, error)
            return None

    def _failed(self, name: str, error: Exception) -> None:
        self._measured.failures[name] = self._measured.failures.get(name, 0) + 1
        log_fault("metric failed", error, metric=name)
