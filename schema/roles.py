"""What a caller may do."""

from __future__ import annotations

from enum import Enum

import strawberry


@strawberry.enum(description="What a caller may do. ADMIN may do all of it.")
class Role(Enum):
    """What a caller may do."""

    ADMIN = strawberry.enum_value("ADMIN", description="Everything.")
    MERCHANT = strawberry.enum_value("MERCHANT", description="The catalog and its stock.")
    EDITOR = strawberry.enum_value("EDITOR", description="Content, and the comments of others.")
    GAME_MASTER = strawberry.enum_value("GAME_MASTER", description="The world of the game.")
    ADVERTISER = strawberry.enum_value("ADVERTISER", description="Ads and campaigns.")
    ANALYST = strawberry.enum_value("ANALYST", description="Logs and their figures.")
    SERVICE = strawberry.enum_value("SERVICE", description="Deposits.")
