"""Reads which telemetry to send, and where, from the variables of the OpenTelemetry SDK.

Source: the OpenTelemetry specification, "Environment Variable Specification". One thing differs: without an exporter
and without an endpoint, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from portico.gateway.logs import logger
from portico.gateway.settings import SettingsError

_SIGNALS = ("traces", "metrics")
_PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


@dataclass(frozen=True, slots=True)
class Exporters:
    """The classes that send spans, and those that send metrics. Both are empty if telemetry is off."""

    traces: tuple[Any, ...] = ()
    metrics: tuple[Any, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.traces or self.metrics)


def exporters_of(environ: Mapping[str, str]) -> Exporters:
    """Returns the exporters that the variables select. Logs a warning if the extra `otel` is not installed.

    Raises SettingsError for an exporter or a protocol that is not installed.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return Exporters()
    names = {signal: _names(signal, environ) for signal in _SIGNALS}
    if any(names.values()) and not entry_points(group="opentelemetry_traces_exporter"):
        logger().warning("telemetry is off: install the extra portico[otel]")
        return Exporters()
    return Exporters(*(tuple(_loaded(signal, name) for name in names[signal]) for signal in _SIGNALS))


def _names(signal: str, environ: Mapping[str, str]) -> list[str]:
    upper = signal.upper()
    given = environ.get(f"OTEL_{upper}_EXPORTER", "").strip()
    if given.lower() == "none":
        return []
    has_endpoint = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or environ.get(f"OTEL_EXPORTER_OTLP_{upper}_ENDPOINT")
    if not given and not has_endpoint:
        return []
    protocol = environ.get(f"OTEL_EXPORTER_OTLP_{upper}_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    return [_by_protocol(signal, name.strip(), protocol) for name in (given or "otlp").split(",")]


def _by_protocol(signal: str, name: str, protocol: str | None) -> str:
    if name != "otlp":
        return name
    found = _PROTOCOLS.get(protocol or "http/protobuf")
    if found is None:
        raise SettingsError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL for {signal} must be http/protobuf or grpc; got {protocol!r}."
        )
    return found


def _loaded(signal: str, name: str) -> Any:
    found = [*entry_points(group=f"opentelemetry_{signal}_exporter", name=name)]
    if not found:
        raise SettingsError(f"OTEL_{signal.upper()}_EXPORTER selects {name!r}, which is not installed.")
    return found[0].load()
