"""`/metrics`, in the text format of Prometheus. With several workers each answers for itself."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from .execution import Executor


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


class Metrics:
    """The metrics of one gateway."""

    def __init__(self, executor: Executor) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Operations(executor))

    def response(self) -> Response:
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
