"""The lengths of periods."""

from __future__ import annotations

from enum import Enum

import strawberry


@strawberry.enum(description="The length of periods. They are in UTC.")
class Granularity(Enum):
    MINUTE = strawberry.enum_value("MINUTE", description="A minute.")
    HOUR = strawberry.enum_value("HOUR", description="An hour.")
    DAY = strawberry.enum_value("DAY", description="A day.")
    WEEK = strawberry.enum_value("WEEK", description="A week of ISO 8601, from Monday to Sunday.")
    MONTH = strawberry.enum_value("MONTH", description="A month.")
    YEAR = strawberry.enum_value("YEAR", description="A year.")
