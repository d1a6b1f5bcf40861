"""A union that the fields of `test_error_members.py` name before it is loaded."""

from __future__ import annotations

from typing import Annotated

import strawberry

from portico import NotFound


@strawberry.type(description="It is found.")
class FoundPayload:
    done: bool = strawberry.field(description="True.")


LazyResult = Annotated[FoundPayload | NotFound, strawberry.union("LazyResult", description="The result.")]
