"""Log events: recording batches of them, and listing them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.schema.roles import Role
from portico.schema.scalars import format_instant
from portico.testing import crashing, stopping
from tests.analytics.support.log_events import EVENTS, LOG, analyst, event, log, logged, paths, service
from tests.support.harness import GatewayClient, SettableClock, running, with_settings

EVERYTHING = {
    "host": "203.0.113.7",
    "user": "robin",
    "time": "2026-03-09T12:00:00.123Z",
    "method": "POST",
    "path": "/search?q=jazz",
    "status": 499,
    "responseSize": 2**40,
    "referrer": "https://example.org/",
    "userAgent": "Mozilla/5.0",
}


async def test_an_event_is_recorded_with_all_its_fields(gateway: GatewayClient) -> None:
    assert await log(gateway, EVERYTHING) == {"__typename": "RecordedPayload", "recorded": 1, "invalid": []}

    (found,) = (await logged(gateway))["nodes"]
    assert {name: found[name] for name in EVERYTHING} == EVERYTHING


async def test_fields_that_are_left_out_have_defaults(gateway: GatewayClient) -> None:
    await log(gateway, event(user="", referrer="", userAgent=""))

    (found,) = (await logged(gateway))["nodes"]
    assert (found["method"], found["status"], found["responseSize"]) == ("GET", 200, 0)
    assert found["user"] is found["referrer"] is found["userAgent"] is None


async def test_text_is_kept_as_it_was_sent(gateway: GatewayClient) -> None:
    hostile = ["a.b", "$x", "/" + "x" * 8_191, "/%00\x1b[31m", " /blank ", "/café/😀", "__proto__"]
    await log(gateway, *(event(path, seconds) for seconds, path in enumerate(hostile)))

    assert await paths(gateway) == hostile[::-1]
    for path in hostile:
        assert await paths(gateway, path=path) == [path]


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"host": ""}, ["host"], "Host must not be empty."),
        ({"path": ""}, ["path"], "Path must not be empty."),
        ({"method": ""}, ["method"], "Method must not be empty."),
        ({"host": "h" * 256}, ["host"], "Host has 256 characters; 255 are allowed."),
        ({"user": "u" * 256}, ["user"], "User has 256 characters; 255 are allowed."),
        ({"method": "M" * 33}, ["method"], "Method has 33 characters; 32 are allowed."),
        ({"path": "p" * 8_193}, ["path"], "Path has 8,193 characters; 8,192 are allowed."),
        ({"path": "/\0"}, ["path"], "Path holds a NUL character."),
        ({"referrer": "r" * 8_193}, ["referrer"], "Referrer has 8,193 characters; 8,192 are allowed."),
        ({"userAgent": "a" * 8_193}, ["userAgent"], "User agent has 8,193 characters; 8,192 are allowed."),
        ({"status": 99}, ["status"], "Status must be between 100 and 999."),
        ({"status": 1000}, ["status"], "Status must be between 100 and 999."),
        ({"responseSize": -1}, ["responseSize"], "Response size must be between 0 and 2^53 - 1."),
        ({"time": "1969-12-31T23:59:59.999Z"}, ["time"], "The time must be in the years 1970 to 2199."),
        ({"time": "2200-01-01T00:00:00.000Z"}, ["time"], "The time must be in the years 1970 to 2199."),
        ({"eventId": ""}, ["eventId"], "Event id must not be empty."),
        ({"eventId": "e" * 256}, ["eventId"], "Event id has 256 characters; 255 are allowed."),
    ],
)
async def test_an_invalid_event_is_named_by_its_position_and_the_others_are_recorded(
    gateway: GatewayClient, fields: dict[str, Any], path: list[str], message: str
) -> None:
    result = await log(gateway, event("/a", 1), event(**fields), event("/b", 2))

    assert result == {
        "__typename": "RecordedPayload",
        "recorded": 2,
        "invalid": [{"path": ["1", *path], "message": message}],
    }
    assert await paths(gateway) == ["/b", "/a"]


async def test_a_call_without_any_valid_event_is_refused_with_its_first_error(gateway: GatewayClient) -> None:
    result = await log(gateway, event(status=1), event(path=""))

    assert (result["__typename"], result["path"]) == ("InvalidInput", ["0", "status"])
    assert await paths(gateway) == []


async def test_a_call_records_up_to_1000_events_by_one_command(gateway: GatewayClient) -> None:
    events = [event(f"/{number}", number, eventId=f"event-{number}") for number in range(1_000)]
    await log(gateway, event())
    gateway.commands.clear()

    assert (await log(gateway, *events))["recorded"] == 1_000

    assert gateway.commands.names() == ["insert analytics.log_events"]
    refused = await log(gateway, *events, event())
    assert (refused["__typename"], refused["message"]) == (
        "InvalidInput",
        "A call can have at most 1,000 entries; got 1,001.",
    )
    assert await log(gateway) == {"__typename": "RecordedPayload", "recorded": 0, "invalid": []}


async def test_the_earliest_and_the_latest_time_are_recorded(gateway: GatewayClient) -> None:
    times = ["1970-01-01T00:00:00.000Z", "2024-02-29T23:59:59.999Z", "2199-12-31T23:59:59.999Z"]

    await log(gateway, *(event(time=time) for time in times))

    assert [one["time"] for one in (await logged(gateway))["nodes"]] == times[::-1]


async def test_an_event_that_is_sent_twice_is_kept_once(gateway: GatewayClient) -> None:
    twice = [event("/first", eventId="one"), event("/second", eventId="one"), event("/third", eventId="two")]

    assert (await log(gateway, *twice))["recorded"] == 3
    assert (await log(gateway, *twice[::-1]))["recorded"] == 3
    other = gateway.as_caller("another server", Role.SERVICE)
    await other.data(LOG, {"input": [event("/fourth", eventId="two")]})

    assert sorted(await paths(gateway)) == ["/first", "/third"]


async def test_callers_who_send_the_same_events_at_once_record_each_once(gateway: GatewayClient) -> None:
    events = [event(f"/{number}", eventId=f"event-{number}") for number in range(60)]
    batches = [events[start : start + 30] for start in range(0, 40, 5)] * 3

    answers = await asyncio.gather(*(log(gateway, *batch) for batch in batches))

    sent = {one["path"] for batch in batches for one in batch}
    assert {answer["recorded"] for answer in answers} == {30, 25}
    assert sorted(await paths(gateway)) == sorted(sent)


async def test_events_without_an_id_are_recorded_each_time(gateway: GatewayClient) -> None:
    await log(gateway, event(), event())
    await log(gateway, event())

    assert await paths(gateway) == ["/", "/", "/"]


@pytest.mark.parametrize(
    ("durability", "expected"),
    [("NONE", {"w": 0}), ("ACKNOWLEDGED", {"w": 1}), ("MAJORITY", {"w": "majority", "j": True})],
)
async def test_the_durability_is_the_write_concern(
    gateway: GatewayClient, durability: str, expected: dict[str, Any]
) -> None:
    events = [event("/a", eventId="a"), event("/b", 1, eventId="b")]
    for _ in range(2):
        gateway.commands.clear()
        assert (await log(gateway, *events, durability=durability))["recorded"] == 2
        (insert,) = [one for one in gateway.commands.sent if "insert" in one]
        assert insert["writeConcern"] == expected

    for _ in range(1_000):
        # Nobody waits for the server with NONE.
        if await paths(gateway) == ["/b", "/a"]:
            break
        await asyncio.sleep(0.01)
    assert await paths(gateway) == ["/b", "/a"]


async def test_events_are_listed_latest_first_by_path_host_and_time(gateway: GatewayClient) -> None:
    await log(gateway, event("/a", 1), event("/b", 2, host="::1"), event("/a", 3, host="::1"), event("/c", 4))

    assert await paths(gateway) == ["/c", "/a", "/b", "/a"]
    assert await paths(gateway, host="::1") == ["/a", "/b"]
    assert await paths(gateway, host="::1", path="/a") == ["/a"]
    assert await paths(gateway, **{"from": "2026-03-09T12:00:02.000Z", "to": "2026-03-09T12:00:04.000Z"}) == [
        "/a",
        "/b",
    ]
    assert await paths(gateway, path="/a", to="2026-03-09T12:00:03.000Z") == ["/a"]
    assert await paths(gateway, path="/nowhere") == []


async def test_pages_of_events_with_equal_times_have_each_event_once(gateway: GatewayClient) -> None:
    await log(gateway, *(event("/same", number // 4) for number in range(25)))
    found: list[str] = []
    after = None
    while True:
        page = await logged(gateway, 4, after, path="/same")
        found += [one["id"] for one in page["nodes"]]
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break

    assert len(found) == len(set(found)) == 25


async def test_an_empty_range_is_refused(gateway: GatewayClient) -> None:
    bounds = {"from": "2026-03-09T12:00:00.000Z", "to": "2026-03-09T12:00:00.000Z"}

    answer = await analyst(gateway).ask(EVENTS, {"filter": bounds})

    assert (answer.codes, answer.body["errors"][0]["message"]) == (
        ["BAD_USER_INPUT"],
        "`to` must be later than `from`.",
    )


async def test_only_analysts_read_and_only_services_record(gateway: GatewayClient) -> None:
    await log(gateway, event())
    (found,) = (await logged(gateway))["nodes"]
    node = "query ($id: ID!) { node(id: $id) { id } }"

    for caller in (service(gateway), gateway.as_caller("robin"), gateway.as_caller("all", *gateway.roles)):
        assert (await caller.ask(EVENTS, {"filter": {}})).codes == ["FORBIDDEN"]
        assert await caller.data(node, {"id": found["id"]}) == {"node": None}
    assert (await analyst(gateway).ask(LOG, {"input": [event()]})).codes == ["FORBIDDEN"]
    assert await analyst(gateway).data(node, {"id": found["id"]}) == {"node": {"id": found["id"]}}
    admin = gateway.as_caller("root", Role.ADMIN)
    assert (await admin.data(LOG, {"input": [event()]}))["logEvents"]["recorded"] == 1
    assert len((await admin.data(EVENTS, {"filter": {}}))["logEvents"]["nodes"]) == 2


async def test_old_events_are_deleted_and_not_recorded_again(settings: Settings) -> None:
    clock = SettableClock()
    keeping = with_settings(settings, AnalyticsSettings, log_days=30.0)
    async with running(keeping, clock=clock) as gateway:
        now = clock.now()
        old, new = ({"host": "::1", "path": path, "eventId": path} for path in ("/old", "/new"))
        times = [(now.replace(microsecond=0)).isoformat() + "Z"]
        old["time"] = new["time"] = times[0]
        await log(gateway, old)
        clock.advance(days=20)
        new["time"] = clock.now().replace(microsecond=0).isoformat() + "Z"
        await log(gateway, new)
        await gateway.run_jobs("forget-log-events")
        assert await paths(gateway) == ["/new", "/old"]

        await gateway.run_jobs("forget-log-events", days=11)

        assert await paths(gateway) == ["/new"]
        refused = await log(gateway, old)
        assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["0", "time"])


async def test_events_are_kept_for_good_by_default(gateway: GatewayClient) -> None:
    await log(gateway, event(time="1970-01-01T00:00:00.000Z"))
    await gateway.run_jobs(days=10_000)

    assert await paths(gateway) == ["/"]


@pytest.mark.parametrize("durability", ["ACKNOWLEDGED", "MAJORITY"])
async def test_a_batch_that_was_interrupted_anywhere_can_be_sent_again(gateway: GatewayClient, durability: str) -> None:
    for stop in (0, 1):
        events = [event(f"/{number}", number, eventId=f"{stop} {number}") for number in range(20)]
        with crashing(gateway, stop):
            answer = await service(gateway).ask(LOG, {"input": events, "durability": durability})
        assert answer.codes == ([] if stop else ["INTERNAL"])

        assert (await log(gateway, *events[:15], durability=durability))["recorded"] == 15
        assert (await log(gateway, *events[5:], durability=durability))["recorded"] == 15

    assert sorted(await paths(gateway)) == sorted(f"/{number}" for number in range(20) for _ in range(2))


async def test_a_job_that_stops_anywhere_deletes_the_rest_in_its_next_run(settings: Settings) -> None:
    clock = SettableClock()
    async with running(with_settings(settings, AnalyticsSettings, log_days=1.0), clock=clock) as gateway:
        for stop in range(3):
            time = format_instant(clock.now())
            await log(gateway, *({"host": "::1", "path": f"/{number}", "time": time} for number in range(5)))
            clock.advance(days=1.1)
            with crashing(gateway, stop), stopping():
                await gateway.run_jobs("forget-log-events")

            await gateway.run_jobs("forget-log-events")

            assert await paths(gateway) == []
