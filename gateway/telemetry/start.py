"""Starts the telemetry of a gateway."""

from __future__ import annotations

from .exporters import Exporters
from .recording import Telemetry


def start(exporters: Exporters) -> Telemetry:
    """Returns telemetry that sends by these exporters; without any, telemetry that does nothing."""
    if not exporters:
        return Telemetry()
    from .open_telemetry import OpenTelemetry  # noqa: PLC0415 - an optional extra

    return OpenTelemetry(exporters)
