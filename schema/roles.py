"""The roles of callers."""

from __future__ import annotations

from enum import Enum

import strawberry


@strawberry.enum(description="The roles of callers. ADMIN includes all other roles.")
class Role(Enum):
    """The roles of callers."""

    ADMIN = strawberry.enum_value("ADMIN", description="All permissions.")
    MERCHANT = strawberry.enum_value("MERCHANT", description="The catalog and its stock.")
    EDITOR = strawberry.enum_value("EDITOR", description="Content, and the comments of others.")
    GAME_MASTER = strawberry.enum_value("GAME_MASTER", description="The world of the game.")
    ADVERTISER = strawberry.enum_value("ADVERTISER", description="Ads and campaigns.")
    ANALYST = strawberry.enum_value("ANALYST", description="Logs and their statistics.")
    SERVICE = strawberry.enum_value("SERVICE", description="Deposits, and what other services record.")
