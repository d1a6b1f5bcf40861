"""The settings of the social network."""

from __future__ import annotations

from dataclasses import dataclass

from portico.resolvers.configuration import setting


@dataclass(frozen=True)
class SocialSettings:
    social_rate: int = setting(
        60,
        "The most posts, the most comments, the most votes and the most changes of the graph of one member in a "
        "minute.",
    )
    rename_rate: int = setting(10, "The most changes of the name of one member in an hour.")
    news_hours: float = setting(
        24,
        "The most hours since a post was written for `newsFeedPosted` to deliver it. Older posts, e.g. of an import, "
        "are in news feeds only.",
    )
    max_fan_out: int = setting(
        10_000,
        "The most followers to whose news feeds a post is copied. The posts of larger authors are merged on read.",
    )
