"""What inputs have in common."""

from __future__ import annotations

from typing import Any

import strawberry


def idempotency_key() -> Any:
    return strawberry.field(
        default=None, description="A repeated call with the same key has one effect and one answer."
    )
