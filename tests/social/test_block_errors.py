"""What errors tell a blocked member."""

from __future__ import annotations

from portico.gateway.settings import Settings
from portico.resolvers.social.settings import SocialSettings
from tests.social.support.social import block, join, user_id
from tests.support.harness import SettableClock, running, with_settings

BLOCK = "mutation ($input: BlockInput!) { block(input: $input) { __typename } }"


async def test_above_the_rate_a_member_who_has_blocked_the_caller_still_does_not_exist(
    settings: Settings, clock: SettableClock
) -> None:
    async with running(with_settings(settings, SocialSettings, social_rate=1), clock=clock) as gateway:
        await join(gateway.db, "max", "dwight", "jared", "nick")
        await block(gateway.db, "dwight", "max")
        caller = gateway.as_caller("max")

        _, limited, hidden, missing = [
            await caller.ask(BLOCK, {"input": {"userId": user_id(name)}})
            for name in ("jared", "nick", "dwight", "nobody")
        ]

    assert limited.codes == ["RATE_LIMITED"]
    assert hidden.body == missing.body == {"data": {"block": {"__typename": "NotFound"}}}
