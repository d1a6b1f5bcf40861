"""A collector of OpenTelemetry: a small HTTP server that decodes what the exporters send."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """A span as it was received. `parent` is empty for the first span of a trace."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    links: tuple[str, ...]
    failed: bool
    attributes: Mapping[str, Any]


@dataclass
class Collector:
    """What was received: all spans, and the latest value of each series of a metric."""

    port: int = 0
    spans: list[Span] = field(default_factory=list)
    # By the name of the metric, then by the attributes of the series. Of a histogram: how many values it has.
    metrics: dict[str, dict[frozenset[tuple[str, Any]], int]] = field(default_factory=dict)
    resource: dict[str, Any] = field(default_factory=dict)
    paths: Counter[str] = field(default_factory=Counter)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @classmethod
    @contextlib.contextmanager
    def opened(cls) -> Iterator[Self]:
        """Listens on a free port until the end of the block."""
        collector = cls()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.receive(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                """Logs nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            collector.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield collector
            finally:
                server.shutdown()
                thread.join()

    def receive(self, path: str, body: bytes) -> None:
        self.paths[path] += 1
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            for batch in traces.resource_spans:
                self.resource = _attributes(batch.resource.attributes)
                self.spans += [_span(one) for scope in batch.scope_spans for one in scope.spans]
        else:
            metrics = ExportMetricsServiceRequest.FromString(body)
            for received in metrics.resource_metrics:
                self.resource = _attributes(received.resource.attributes)
                for scope in received.scope_metrics:
                    self.metrics |= {one.name: _series(one) for one in scope.metrics}

    def named(self, name: str) -> list[Span]:
        """The spans with this name, in the order in which they ended."""
        return [span for span in self.spans if span.name == name]

    def total(self, metric: str, **attributes: str) -> int:
        """The sum of all series of a metric that have these attributes. In the names, `_` stands for a dot."""
        wanted = {(_NAMES[name], value) for name, value in attributes.items()}
        return sum(value for series, value in self.metrics.get(metric, {}).items() if wanted <= series)


_NAMES = {
    "operation": "graphql.operation.name",
    "kind": "graphql.operation.type",
    "client": "graphql.client.name",
    "error": "error.type",
    "collection": "db.collection.name",
    "command": "db.operation.name",
}


def _span(span: Any) -> Span:
    return Span(
        span.name,
        {2: "server", 3: "client"}.get(span.kind, "internal"),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        tuple(link.span_id.hex() for link in span.links),
        span.status.code == span.status.STATUS_CODE_ERROR,
        _attributes(span.attributes),
    )


def _series(metric: Any) -> dict[frozenset[tuple[str, Any]], int]:
    points = getattr(metric, metric.WhichOneof("data")).data_points
    return {
        frozenset(_attributes(point.attributes).items()): point.count if hasattr(point, "count") else point.as_int
        for point in points
    }


def _attributes(given: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in given}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(one) for one in found.values] if kind == "array_value" else found
