"""Arguments and input fields that several types share."""

from __future__ import annotations

from typing import Annotated, Any

import strawberry

First = Annotated[int | None, strawberry.argument(description="The size of the page, 1 to 100.")]
After = Annotated[str | None, strawberry.argument(description="A cursor. The page starts after its row.")]


def described(description: str) -> Any:
    """Returns an argument with this description, for `Annotated`."""
    return strawberry.argument(description=description)


def idempotency_key(*, is_required: bool = False) -> Any:
    """Returns the input field of the idempotency key."""
    description = "Repeated calls with the same key take effect once, and return the same answer."
    if is_required:
        return strawberry.field(description=description)
    return strawberry.field(default=None, description=description)
