"""The viewer's notifications: the list, what is hidden of it, and what marks it as read."""

from __future__ import annotations

import asyncio
from typing import Any

from portico.schema.kinds import Kind
from tests.notifications.kit import KIT
from tests.notifications.support.news import LIST, MARK, listed, mark, notify, reasons_of, stored, unread
from tests.social.support.social import block, join, unblock
from tests.support.harness import Commands, GatewayClient, assert_invariants

NODE = "query ($id: ID!) { node(id: $id) { id } }"


async def test_the_latest_comes_first_and_pages_go_both_ways(gateway: GatewayClient) -> None:
    ids = await notify(gateway.db, "ann", "bob", "cem", "dan", "eve", "fay")
    newest = ids[::-1]
    ann = gateway.as_caller("ann")

    first = (await ann.data(LIST, {"first": 2}))["viewer"]["notifications"]
    second = (await ann.data(LIST, {"first": 2, "after": first["pageInfo"]["endCursor"]}))["viewer"]["notifications"]
    back = (await ann.data(LIST, {"last": 2, "before": second["pageInfo"]["startCursor"]}))["viewer"]["notifications"]

    assert [row["id"] for row in first["nodes"]] == newest[:2]
    assert [row["id"] for row in second["nodes"]] == newest[2:4]
    assert (second["pageInfo"]["hasNextPage"], second["pageInfo"]["hasPreviousPage"]) == (True, True)
    assert back["nodes"] == first["nodes"]
    assert [row["actor"]["name"] for row in await listed(gateway, "ann")] == ["Fay", "Eve", "Dan", "Cem", "Bob"]


async def test_a_notification_leads_to_its_object_and_to_none_that_is_gone(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    await notify(gateway.db, "ann", "bob", "gone")

    gone, there = await listed(gateway, "ann")

    assert there["node"] == {"id": Kind.encode_id("User", "bob"), "__typename": "User"}
    assert there["nodeId"] == Kind.encode_id("User", "bob")
    assert (gone["node"], gone["nodeId"]) == (None, Kind.encode_id("User", "gone"))


async def test_nobody_else_sees_a_notification(gateway: GatewayClient) -> None:
    (one,) = await notify(gateway.db, "ann", "bob")

    for caller in (gateway.as_caller("bob"), gateway):
        assert await caller.data(NODE, {"id": one}) == {"node": None}
        assert (await caller.data(LIST))["viewer"]["notifications"]["nodes"] == []
    assert await mark(gateway, "bob", ids=[one]) == {"__typename": "NotFound", "missingId": one}
    assert await gateway.as_caller("ann").data(NODE, {"id": one}) == {"node": {"id": one}}
    assert await unread(gateway, "ann") == 1


async def test_a_block_in_either_direction_hides_notifications_and_does_not_count_them(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan")
    from_bob, from_cem, _ = await notify(gateway.db, "ann", "bob", "cem", "dan")
    await block(gateway.db, "ann", "bob")
    await block(gateway.db, "cem", "ann")

    assert await reasons_of(gateway, "ann") == [("FOLLOWED", "dan")]
    assert await unread(gateway, "ann") == 1
    for hidden in (from_bob, from_cem):
        assert await gateway.as_caller("ann").data(NODE, {"id": hidden}) == {"node": None}
        assert (await mark(gateway, "ann", ids=[hidden]))["__typename"] == "NotFound"
    await unblock(gateway.db, "ann", "bob")
    await unblock(gateway.db, "cem", "ann")
    assert await unread(gateway, "ann") == 3


async def test_hidden_notifications_do_not_shorten_a_page(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    await notify(gateway.db, "ann", *["cem"] * 3, *["bob"] * 30, "cem")
    await block(gateway.db, "ann", "bob")

    page = (await gateway.as_caller("ann").data(LIST, {"first": 4}))["viewer"]["notifications"]

    assert [row["actor"]["userId"] for row in page["nodes"]] == ["cem"] * 4
    assert page["pageInfo"]["hasNextPage"] is False


async def test_marks_stay_and_the_count_follows(gateway: GatewayClient) -> None:
    first, second, third = await notify(gateway.db, "ann", "bob", "cem", "dan")

    marked = await mark(gateway, "ann", ids=[second])
    again = await mark(gateway, "ann", ids=[second, first])

    (was_read,) = marked["notifications"]
    assert (was_read["id"], marked["viewer"]) == (second, {"unreadNotificationCount": 2})
    assert again["notifications"][0] == was_read
    assert again["viewer"] == {"unreadNotificationCount": 1}
    assert [row["id"] for row in await listed(gateway, "ann", unreadOnly=True)] == [third]
    assert [row["id"] for row in await listed(gateway, "ann")] == [third, second, first]
    await assert_invariants(gateway)


async def test_all_are_marked_through_the_first_of_the_list(gateway: GatewayClient) -> None:
    ids = await notify(gateway.db, "ann", *(f"m{number}" for number in range(5)))
    others = await notify(gateway.db, "bob", "ann")

    assert (await mark(gateway, "ann", through=ids[3]))["viewer"] == {"unreadNotificationCount": 1}
    assert [row["id"] for row in await listed(gateway, "ann", unreadOnly=True)] == ids[4:]
    assert [row["id"] for row in await listed(gateway, "bob", unreadOnly=True)] == others
    await assert_invariants(gateway)


async def test_the_count_stops_at_a_hundred(gateway: GatewayClient) -> None:
    await notify(gateway.db, "ann", *(f"m{number}" for number in range(130)))

    assert await unread(gateway, "ann") == 100


async def test_concurrent_marks_of_the_same_notifications_agree(gateway: GatewayClient) -> None:
    ids = await notify(gateway.db, "ann", *(f"m{number}" for number in range(20)))

    calls = [mark(gateway, "ann", ids=ids[start : start + 12]) for start in range(0, 9, 2)]
    answers = await asyncio.gather(*calls, *(mark(gateway, "ann", through=ids[-1]) for _ in range(3)))

    assert {answer["__typename"] for answer in answers} == {"MarkNotificationsReadPayload"}
    assert await unread(gateway, "ann") == 0
    rows = {row["id"]: row["readAt"] for row in await listed(gateway, "ann", first=100)}
    assert all(rows.values())
    await assert_invariants(gateway)


async def test_a_mark_needs_a_token_and_one_to_a_hundred_ids(gateway: GatewayClient) -> None:
    ids = await notify(gateway.db, "ann", "bob")

    assert (await gateway.ask(MARK, {"input": {"which": {"ids": ids}}}, token=None)).codes == ["UNAUTHENTICATED"]
    for wrong, code in (([], "TOO_FEW"), (ids * 101, "TOO_MANY")):
        refused = await mark(gateway, "ann", ids=wrong)
        assert refused == {"__typename": "InvalidInput", "path": ["which", "ids"], "code": code}
    assert await gateway.data("{ viewer { subject } }", token=None) == {"viewer": None}


async def test_a_notification_of_a_domain_that_is_not_served_says_so(gateway: GatewayClient) -> None:
    await notify(gateway.db, "ann", "bob", reason="CHESS_MOVED")
    await gateway.db["notifications"].update_one({}, {"$set": {"about": {"kind": "ChessGame", "key": "1"}}})

    (row,) = await listed(gateway, "ann")

    assert (row["reason"], row["node"]) == ("OTHER", None)


async def test_the_commands_of_the_operations(gateway: GatewayClient, commands: Commands) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    ids = await notify(gateway.db, "ann", "bob", "cem")
    ann = gateway.as_caller("ann")
    rows = "viewer { notifications { nodes { id reason actor { name } } } }"
    operations: dict[str, tuple[str, dict[str, Any]]] = {
        "the viewer's notifications": (f"{{ {rows} }}", {}),
        "the viewer's notifications with their objects": (
            "{ viewer { notifications { nodes { node { ... on User { name } } } } } }",
            {},
        ),
        "how many notifications are unread": ("{ viewer { unreadNotificationCount } }", {}),
        "mark notifications as read": (_mark("ids", "[ID!]!"), {"which": ids[:1]}),
        "mark all notifications as read": (_mark("through", "ID!"), {"which": ids[-1]}),
    }
    for name, (text, variables) in operations.items():
        commands.clear()
        await ann.data(text, variables)
        assert sorted(commands.names()) == KIT.budgets[name], name


def _mark(name: str, kind: str) -> str:
    return (
        f"mutation ($which: {kind}) {{ markNotificationsRead(input: {{ which: {{ {name}: $which }} }}) "
        "{ __typename ... on MarkNotificationsReadPayload { notifications { id } } } }"
    )


async def test_a_notification_that_was_marked_as_read_names_its_member_and_its_object(gateway: GatewayClient) -> None:
    (one,) = await notify(gateway.db, "ann", "bob")
    await mark(gateway, "ann", ids=[one])

    (document,) = await stored(gateway.db)
    assert (document["of"], document["about"]) == ("ann", {"kind": "User", "key": "bob"})
    assert "unread" not in document
