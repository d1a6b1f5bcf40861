"""`/metrics`, in the text format of Prometheus. Each worker reports its own numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pymongo.errors import PyMongoError
from starlette.responses import Response

from portico.gateway.operations.execution import Executor
from portico.resolvers.documents import Database
from portico.resolvers.domains import Counter, Gauge, Resources

from .live import Counts

# How long a gauge may wait for the database.
_MEASURE_SECONDS = 2.0


class _Operations(Collector):
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


class _Admission(Collector):
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


class _Live(Collector):
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


class _Measured(Collector):
    """The latest values of the gauges of the domains."""

    def __init__(self) -> None:
        self.values: Mapping[Gauge, float] = {}

    def collect(self) -> Iterator[Metric]:
        for gauge, value in self.values.items():
            yield GaugeMetricFamily(gauge.name, gauge.about, value)


class _Counted(Collector):
    """The latest values of the counters of the domains."""

    def __init__(self) -> None:
        self.values: Mapping[Counter, float] = {}

    def collect(self) -> Iterator[Metric]:
        for counter, value in self.values.items():
            yield CounterMetricFamily(counter.name, counter.about, value)


class Metrics:
    """The metrics of one gateway. The gauges of the domains are left out if the database does not answer in time."""

    def __init__(
        self, executor: Executor, counts: Counts, gauges: Sequence[Gauge] = (), counters: Sequence[Counter] = ()
    ) -> None:
        self._gauges = gauges
        self._counters = counters
        self._measured = _Measured()
        self._counted = _Counted()
        self._registry = CollectorRegistry()
        self._registry.register(_Operations(executor))
        self._registry.register(_Admission(executor))
        self._registry.register(_Live(counts))
        self._registry.register(self._measured)
        self._registry.register(self._counted)

    async def response(self, db: Database, now: datetime, resources: Resources) -> Response:
        self._counted.values = {counter: counter.read(resources) for counter in self._counters}
        self._measured.values = await self._measure(db, now)
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _measure(self, db: Database, now: datetime) -> Mapping[Gauge, float]:
        try:
            async with asyncio.timeout(_MEASURE_SECONDS):
                return {gauge: await gauge.read(db, now) for gauge in self._gauges}
        except (PyMongoError, TimeoutError):
            return {}
