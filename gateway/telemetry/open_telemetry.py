"""Sends telemetry by the SDK of OpenTelemetry, whose variables set the sampling, batches, intervals and headers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from opentelemetry import propagate
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, NoOpTracerProvider

from portico.gateway.live import Counts
from portico.gateway.logs import logger
from portico.schema.context import Context

from .command_spans import CommandRecorder
from .exporters import Exporters
from .names import Names
from .operation_spans import Instruments, OperationRecord
from .recording import Record, Telemetry, client_name

# How long a gateway that stops tries to send what is left.
FLUSH_SECONDS = 2.0
# The most different names in the metrics of a process.
MAX_OPERATION_NAMES = 100
MAX_CLIENT_NAMES = 20
_LOG_SECONDS = 60.0
# In seconds. Source: the semantic conventions for HTTP and database metrics.
_REQUEST_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_COMMAND_BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


class OpenTelemetry(Telemetry):
    """Telemetry that is sent by exporters. It has providers of its own, not those of the process."""

    is_on = True

    def __init__(self, exporters: Exporters) -> None:
        _log_once()
        resource = _resource()
        self._spans = TracerProvider(resource=resource, shutdown_on_exit=False) if exporters.traces else None
        for exporter in exporters.traces:
            assert self._spans is not None
            self._spans.add_span_processor(BatchSpanProcessor(exporter()))
        readers = [_reader(exporter) for exporter in exporters.metrics]
        self._metrics = MeterProvider(readers, resource, shutdown_on_exit=False)
        self._meter = self._metrics.get_meter("portico", resource.attributes[SERVICE_VERSION])  # type: ignore[arg-type]
        tracer = (self._spans or NoOpTracerProvider()).get_tracer("portico", str(resource.attributes[SERVICE_VERSION]))
        self._instruments = _instruments(self._meter, tracer)
        durations = _seconds(self._meter, "db.client.operation.duration", "Duration of commands.", _COMMAND_BOUNDS)
        self._listener = CommandRecorder(tracer, durations)

    @property
    def listeners(self) -> Sequence[Any]:
        return (self._listener,)

    def operation(self, headers: Mapping[str, str], trace: Mapping[str, str] | None = None) -> Record:
        client = client_name(headers)
        parent = propagate.extract({**headers, **trace} if trace else headers)
        return OperationRecord(self._instruments, client, parent)

    def event(self, subscription: Context) -> Record:
        started: OperationRecord = subscription.record
        links = [Link(started.span.get_span_context())]
        return OperationRecord(self._instruments, started.client, None, links)

    def watch(self, counts: Counts) -> None:
        def observe(_options: CallbackOptions) -> Iterator[Observation]:
            yield Observation(counts.listeners)

        self._meter.create_observable_up_down_counter(
            "graphql.server.subscription.active", [observe], "{subscription}", "Active subscriptions."
        )

    async def aclose(self) -> None:
        """Sends what is left, for up to FLUSH_SECONDS. The threads that send do not keep the process."""
        loop = asyncio.get_running_loop()
        ends = [self._metrics.shutdown, *([] if self._spans is None else [self._spans.shutdown])]
        done = [loop.create_future() for _ in ends]
        for end, ended in zip(ends, done, strict=True):
            threading.Thread(target=_run, args=(end, loop, ended), name="telemetry", daemon=True).start()
        await asyncio.wait(done, timeout=FLUSH_SECONDS)


def _run(end: Callable[[], Any], loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
    with contextlib.suppress(Exception):
        end()
    # The loop is closed if the end took too long.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(ended.cancel)


def _resource() -> Resource:
    """Returns what describes this process: the name from the variables, or else `portico`, and the version."""
    ours = Resource({SERVICE_VERSION: version("portico")})
    given = ours.merge(Resource.create())
    is_named = not str(given.attributes[SERVICE_NAME]).startswith("unknown_service")
    return given if is_named else given.merge(Resource({SERVICE_NAME: "portico"}))


def _reader(exporter: Any) -> MetricReader:
    made = exporter()
    return made if isinstance(made, MetricReader) else PeriodicExportingMetricReader(made)


def _instruments(meter: Meter, tracer: Any) -> Instruments:
    request, event = "graphql.server.request.duration", "graphql.server.subscription.event.duration"
    return Instruments(
        tracer=tracer,
        requests=_seconds(meter, request, "Duration of GraphQL operations.", _REQUEST_BOUNDS),
        events=_seconds(meter, event, "Duration of the runs for an event.", _REQUEST_BOUNDS),
        errors=meter.create_counter("portico.errors", "{error}", "Operations with an error, by its code."),
        commands=meter.create_counter("portico.commands", "{command}", "Commands to MongoDB."),
        documents=meter.create_counter(
            "portico.documents", "{document}", "Documents that MongoDB returned or that were written."
        ),
        operation_names=Names(MAX_OPERATION_NAMES),
        client_names=Names(MAX_CLIENT_NAMES),
    )


def _seconds(meter: Meter, name: str, text: str, bounds: Sequence[float]) -> Any:
    return meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=bounds)


class _Log(logging.Handler):
    """Writes what the SDK reports to the log of the gateway: each message once a minute."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._written: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now - self._written.get(str(record.msg), -_LOG_SECONDS) >= _LOG_SECONDS:
            self._written[str(record.msg)] = now
            logger().warning("telemetry is not sent", reason=record.getMessage())


def _log_once() -> None:
    found = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, _Log) for handler in found.handlers):
        found.addHandler(_Log())
        found.propagate = False
