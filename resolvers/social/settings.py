"""The settings of the social network."""

from __future__ import annotations

from dataclasses import dataclass

from portico.resolvers.configuration import setting


@dataclass(frozen=True)
class SocialSettings:
    social_rate: int = setting(
        60,
        "The most posts, the most comments and the most changes of the graph of one member in a minute.",
    )
    max_fan_out: int = setting(
        10_000,
        "The most followers to whose news feeds a post is copied. The posts of larger authors are merged on read.",
    )
