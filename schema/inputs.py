"""What inputs have in common."""

from __future__ import annotations

from typing import Annotated, Any

import strawberry

First = Annotated[int | None, strawberry.argument(description="The size of the page, 1 to 100.")]
After = Annotated[str | None, strawberry.argument(description="A cursor: the page begins behind its row.")]


def described(description: str) -> Any:
    """Returns an argument, for `Annotated`."""
    return strawberry.argument(description=description)


def idempotency_key(*, is_required: bool = False) -> Any:
    """Returns the field of an input that takes the idempotency key."""
    description = "A repeated call with the same key has one effect and one answer."
    if is_required:
        return strawberry.field(description=description)
    return strawberry.field(default=None, description=description)
