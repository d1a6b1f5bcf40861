"""Who wrote something."""

from __future__ import annotations

import strawberry

from .fields import stored


@strawberry.type(description="Who wrote something, as stored with it.")
class Author:
    user_id: strawberry.ID = stored("id", description="The subject of their token.")
    name: str = stored(description="The name in their token, as it was then; the subject where it had none.")
