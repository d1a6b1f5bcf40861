"""The demo's viewer has notifications of what the demo's members have done."""

from __future__ import annotations

import re

from portico.gateway.demo import demo_token
from tests.notifications.support.news import LIST, listed, stored
from tests.support.demo import Demo, load_demo
from tests.support.harness import GatewayClient, assert_invariants


async def test_the_viewer_has_notifications_of_several_reasons(demo_gateway: GatewayClient, loaded_demo: Demo) -> None:
    rows = await listed(demo_gateway, demo_token.SUBJECT, first=100)

    (count,) = re.findall(r"notifications: ([\d,]+) of what others have done", loaded_demo.printed)
    assert len(await stored(demo_gateway.db)) == int(count.replace(",", ""))
    assert {"FOLLOWED", "POST_COMMENTED", "TRADE_OFFERED"} <= {row["reason"] for row in rows}
    assert [row["createdAt"] for row in rows] == sorted((row["createdAt"] for row in rows), reverse=True)
    assert all(row["node"] is not None for row in rows)
    assert (await demo_gateway.as_caller(demo_token.SUBJECT).data(LIST))["viewer"]["unreadNotificationCount"] > 0
    await assert_invariants(demo_gateway)


async def test_starting_the_demo_again_adds_no_notification(gateway: GatewayClient, demo: Demo) -> None:
    before = await stored(gateway.db)

    assert "notifications: 0 of what others have done" in await load_demo(gateway.settings)

    assert demo.printed
    assert await stored(gateway.db) == before
