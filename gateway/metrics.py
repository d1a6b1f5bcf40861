"""`/metrics`, in the text format of Prometheus. With several workers each answers for itself."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from portico.gateway.operations.execution import Executor

from .live import Counts


class _Operations(Collector):
    """How many operations ran, and how; read when they are asked for, so that counting costs nothing."""

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


class _Live(Collector):
    """Who listens, what they were told, and why it ended."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        counts = self._counts
        for name, text, number in (
            ("portico_sockets", "WebSockets that are open.", counts.sockets),
            ("portico_subscriptions", "Subscriptions that go on.", counts.listeners),
        ):
            yield GaugeMetricFamily(name, text, number)
        for name, text, number in (
            ("portico_change_streams", "Change streams that were opened.", counts.streams),
            ("portico_change_stream_interruptions", "Interruptions of a change stream.", counts.interruptions),
            ("portico_events", "Events that the change streams have had.", counts.events),
            ("portico_events_delivered", "Events that subscriptions have taken.", counts.deliveries),
            ("portico_connections_unread", "Connections given up because their clients did not read.", counts.unread),
        ):
            yield CounterMetricFamily(name, text, number)
        ended = CounterMetricFamily(
            "portico_subscriptions_ended", "Subscriptions that the gateway has ended, by code.", labels=["code"]
        )
        for code, number in counts.ended.items():
            ended.add_metric([code], number)
        yield ended


class Metrics:
    """The metrics of one gateway."""

    def __init__(self, executor: Executor, counts: Counts) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Operations(executor))
        self._registry.register(_Live(counts))

    def response(self) -> Response:
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
