"""Periods: their lengths, and the arguments of a range of them."""

from datetime import datetime
from enum import Enum
from typing import Annotated

import strawberry

RangeBegin = Annotated[datetime, strawberry.argument(name="from", description="A time in the first period.")]
RangeEnd = Annotated[
    datetime, strawberry.argument(name="to", description="The end, not included. At most 10,000 periods after `from`.")
]


@strawberry.enum(description="The length of periods. They are in UTC.")
class Granularity(Enum):
    MINUTE = strawberry.enum_value("MINUTE", description="A minute.")
    HOUR = strawberry.enum_value("HOUR", description="An hour.")
    DAY = strawberry.enum_value("DAY", description="A day.")
    WEEK = strawberry.enum_value("WEEK", description="A week of ISO 8601, from Monday to Sunday.")
    MONTH = strawberry.enum_value("MONTH", description="A month.")
    YEAR = strawberry.enum_value("YEAR", description="A year.")
