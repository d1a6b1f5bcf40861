"""The settings of analytics."""

from __future__ import annotations

from dataclasses import dataclass

from portico.resolvers.configuration import setting


@dataclass(frozen=True)
class AnalyticsSettings:
    log_days: float | None = setting(
        None, "Days until log events are deleted, counted from the time of the request. Unset: they are kept."
    )
    max_page_count_events: int = setting(
        1_000_000,
        "The most log events that `pageCounts` counts itself, because no roll-up has them. A longer range is refused.",
    )
    hit_id_days: float | None = setting(
        None,
        "Days until the `eventId` of a hit is forgotten. A hit that is sent again later counts again. Unset: never.",
    )
    log_requests: float | None = setting(
        None, "The share of its own requests that the gateway records as log events, up to 1. Unset: none."
    )
