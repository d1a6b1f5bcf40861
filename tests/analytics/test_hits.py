"""Hits of pages: counting them, and their numbers over time."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

import bson
import pytest

from portico.gateway.settings import Settings
from portico.resolvers.analytics.periods import next_start, start_of
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.schema.roles import Role
from portico.schema.scalars import format_instant
from tests.analytics.support.hits import HITS, RECORD, asked, expected, hit, points, record_hits, total
from tests.analytics.support.log_events import NOON, Given, analyst, service
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, assert_invariants, running, with_settings

pytestmark = pytest.mark.usefixtures("sound")
DAY = timedelta(days=1)
MIDNIGHT = NOON.replace(hour=0)


async def test_hits_are_counted_by_minute_hour_day_and_month(gateway: GatewayClient) -> None:
    times = [NOON, NOON + timedelta(seconds=59), NOON + timedelta(minutes=61), NOON + DAY, NOON + 30 * DAY]

    result = await record_hits(gateway, *(hit(at=time) for time in times), hit("/other"))

    assert result == {"__typename": "RecordedPayload", "recorded": 6, "invalid": []}
    assert await points(gateway, "MINUTE", NOON, NOON + timedelta(minutes=2)) == [
        ("2026-03-09T12:00:00.000Z", 2),
        ("2026-03-09T12:01:00.000Z", 0),
    ]
    assert await points(gateway, "HOUR", NOON, NOON + timedelta(hours=2)) == [
        ("2026-03-09T12:00:00.000Z", 2),
        ("2026-03-09T13:00:00.000Z", 1),
    ]
    assert await points(gateway, "DAY", MIDNIGHT, MIDNIGHT + 2 * DAY) == [
        ("2026-03-09T00:00:00.000Z", 3),
        ("2026-03-10T00:00:00.000Z", 1),
    ]
    assert await points(gateway, "MONTH", MIDNIGHT, MIDNIGHT + 60 * DAY) == [
        ("2026-03-01T00:00:00.000Z", 4),
        ("2026-04-01T00:00:00.000Z", 1),
        ("2026-05-01T00:00:00.000Z", 0),
    ]


async def test_a_page_that_nobody_has_viewed_has_zeros(gateway: GatewayClient) -> None:
    data = await analyst(gateway).data(HITS, asked("DAY", MIDNIGHT, MIDNIGHT + 2 * DAY, "/none", "nowhere"))

    zeros = [{"at": f"2026-03-{day:02}T00:00:00.000Z", "hits": 0} for day in (9, 10)]
    assert data["hits"] == {"site": "nowhere", "page": "/none", "points": zeros}


async def test_a_hit_without_a_time_is_counted_now(gateway: GatewayClient, clock: SettableClock) -> None:
    now = clock.now()

    await record_hits(gateway, hit(at=None))

    minute = format_instant(start_of("MINUTE", now))
    assert await points(gateway, "MINUTE", now, now + timedelta(milliseconds=1)) == [(minute, 1)]


async def test_pages_with_any_text_are_counted_apart(gateway: GatewayClient) -> None:
    pages = ["a.b", "$x", "/" + "x" * 8_191, "/\x1b", " ", "/é😀", "__proto__", "hours.3", "/a", "/A"]
    await record_hits(gateway, *(hit(page) for number, page in enumerate(pages) for _ in range(number + 1)))
    await record_hits(gateway, {**hit("/a"), "site": "another"})

    assert [await total(gateway, page) for page in pages] == list(range(1, len(pages) + 1))


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"site": ""}, ["site"], "Site must not be empty."),
        ({"site": "s" * 201}, ["site"], "Site has 201 characters; 200 are allowed."),
        ({"page": ""}, ["page"], "Page must not be empty."),
        ({"page": "p" * 8_193}, ["page"], "Page has 8,193 characters; 8,192 are allowed."),
        ({"page": "/\0"}, ["page"], "Page holds a NUL character."),
        ({"at": "1969-12-31T23:59:59.999Z"}, ["at"], "The time must be in the years 1970 to 2199."),
        ({"at": "2200-01-01T00:00:00.000Z"}, ["at"], "The time must be in the years 1970 to 2199."),
        ({"eventId": ""}, ["eventId"], "Event id must not be empty."),
    ],
)
async def test_an_invalid_hit_is_named_by_its_position_and_the_others_are_counted(
    gateway: GatewayClient, fields: Given, path: list[str], message: str
) -> None:
    result = await record_hits(gateway, hit(), {**hit(), **fields}, hit())

    assert result == {
        "__typename": "RecordedPayload",
        "recorded": 2,
        "invalid": [{"path": ["1", *path], "message": message}],
    }
    assert await total(gateway) == 2
    refused = await record_hits(gateway, {**hit(), **fields})
    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["0", *path])


async def test_a_call_counts_up_to_1000_hits(gateway: GatewayClient) -> None:
    assert (await record_hits(gateway, *[hit()] * 1_000))["recorded"] == 1_000
    refused = await record_hits(gateway, *[hit()] * 1_001)

    assert refused["message"] == "A call can have at most 1,000 entries; got 1,001."
    assert await total(gateway) == 1_000
    assert (await record_hits(gateway))["recorded"] == 0


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (asked("WEEK", NOON, NOON + DAY), "Hits are counted by MINUTE, HOUR, DAY and MONTH."),
        (asked("YEAR", NOON, NOON + DAY), "Hits are counted by MINUTE, HOUR, DAY and MONTH."),
        (asked("DAY", NOON, NOON), "`to` must be later than `from`."),
        (
            asked("MINUTE", NOON, NOON + timedelta(minutes=10_000, milliseconds=1)),
            "The range has more than 10,000 periods. Choose a shorter range, or longer periods.",
        ),
        ({**asked("DAY", NOON, NOON + DAY), "from": "1969-12-31T23:59:59.999Z"}, None),
        ({**asked("DAY", NOON, NOON + DAY), "to": "2200-01-01T00:00:00.001Z"}, None),
    ],
)
async def test_an_invalid_range_is_refused(gateway: GatewayClient, variables: Given, message: str | None) -> None:
    answer = await analyst(gateway).ask(HITS, variables)

    assert answer.codes == ["BAD_USER_INPUT"]
    assert answer.body["errors"][0]["message"] == (message or "The time must be in the years 1970 to 2199.")


async def test_the_first_period_contains_the_beginning_of_the_range(gateway: GatewayClient) -> None:
    await record_hits(gateway, hit())

    found = await points(gateway, "DAY", NOON + timedelta(hours=5), NOON + DAY)

    assert found == [("2026-03-09T00:00:00.000Z", 1), ("2026-03-10T00:00:00.000Z", 0)]


@pytest.mark.parametrize(("granularity", "length"), [("MINUTE", timedelta(minutes=10_000)), ("HOUR", 416 * DAY)])
async def test_a_long_range_is_read_by_one_command(gateway: GatewayClient, granularity: str, length: timedelta) -> None:
    await record_hits(gateway, *(hit(at=NOON + number * DAY) for number in range(420)))
    gateway.commands.clear()

    found = await points(gateway, granularity, NOON, NOON + length)

    assert gateway.commands.names() == ["find analytics.hit_days"]
    assert sum(hits for _, hits in found) == length.days + bool(length.seconds)


async def test_a_year_of_days_is_read_by_one_command(gateway: GatewayClient) -> None:
    begin = datetime(2024, 1, 1)  # noqa: DTZ001 - stored times are naive UTC
    await record_hits(gateway, *(hit(at=begin + number * DAY) for number in range(366)))
    gateway.commands.clear()

    found = await points(gateway, "DAY", begin, begin + 366 * DAY)

    assert gateway.commands.names() == ["find analytics.hit_months"]
    assert [hits for _, hits in found] == [1] * 366


async def test_one_operation_has_a_bounded_number_of_points(gateway: GatewayClient) -> None:
    field = HITS[HITS.index("hits(") : HITS.rindex("}")]
    head = HITS[: HITS.index("hits(")]
    variables = asked("MINUTE", NOON, NOON + timedelta(minutes=10_000))

    answer = await analyst(gateway).ask(f"{head} one: {field} two: {field} }}", variables)

    assert [error["extensions"]["code"] for error in answer.body["errors"]] == ["ANSWER_TOO_LARGE"]
    assert len((await analyst(gateway).data(HITS, variables))["hits"]["points"]) == 10_000


async def test_a_hit_that_is_sent_twice_counts_once(gateway: GatewayClient) -> None:
    hits = [hit(eventId="one"), hit("/other", eventId="one"), hit(eventId="two"), hit()]

    assert (await record_hits(gateway, *hits))["recorded"] == 4
    assert (await record_hits(gateway, *hits[::-1]))["recorded"] == 4
    await gateway.as_caller("another server", Role.SERVICE).data(RECORD, {"input": [hit("/third", eventId="two")]})

    assert [await total(gateway, page) for page in ("/", "/other", "/third")] == [4, 0, 0]


async def test_callers_who_send_the_same_hits_at_once_count_each_once(gateway: GatewayClient) -> None:
    hits = [hit(f"/{number % 3}", eventId=f"hit {number}") for number in range(60)]
    batches = [hits[start : start + 30] for start in range(0, 40, 5)] * 4

    await asyncio.gather(*(record_hits(gateway, *batch) for batch in batches))

    assert [await total(gateway, f"/{number}") for number in range(3)] == [20, 20, 20]


async def test_ids_of_hits_are_forgotten_after_the_days_of_the_setting(settings: Settings) -> None:
    clock = SettableClock()
    async with running(with_settings(settings, AnalyticsSettings, hit_id_days=10.0), clock=clock) as gateway:
        for days, count in ((0, 1), (9, 1), (2, 2)):
            await gateway.run_jobs(days=days)
            await record_hits(gateway, hit(eventId="one"))
            assert await total(gateway) == count


async def test_ids_of_hits_are_kept_for_good_by_default(gateway: GatewayClient) -> None:
    await record_hits(gateway, hit(eventId="one"))
    await gateway.run_jobs(days=5_000)

    await record_hits(gateway, hit(eventId="one"))

    assert await total(gateway) == 1


@contextlib.asynccontextmanager
async def gateways(settings: Settings, count: int) -> AsyncIterator[list[GatewayClient]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(running(settings)) for _ in range(count)]


async def test_a_hot_page_is_counted_by_several_gateways_and_read_as_one(settings: Settings) -> None:
    async with gateways(settings, 3) as started:
        calls = (record_hits(one, hit(), hit(eventId=f"{number}")) for number in range(60) for one in started)
        await asyncio.gather(*calls)

        assert [await total(one) for one in started] == [240] * 3
        slots = await started[0].db["analytics.hit_days"].distinct("slot")
        await assert_invariants(started[0])

    assert len(slots) == 3


async def test_gateways_that_start_later_use_the_slots_of_those_that_have_stopped(settings: Settings) -> None:
    for count in (2, 3, 1):
        async with gateways(settings, count) as started:
            await asyncio.gather(*(record_hits(one, hit()) for one in started))

            assert await started[0].db["analytics.hit_slots"].count_documents({}) <= 3
    async with gateways(settings, 1) as (gateway,):
        assert await total(gateway) == 6


async def test_a_flush_sends_at_most_two_updates_for_a_page_and_day(gateway: GatewayClient) -> None:
    hits = [hit(f"/{number % 5}", NOON + timedelta(minutes=number)) for number in range(500)]
    await record_hits(gateway, *hits)
    gateway.commands.clear()

    await record_hits(gateway, *hits, *(hit("/0", eventId=f"{number}") for number in range(200)))

    assert gateway.commands.names() == [
        "update analytics.hit_slots",
        "insert analytics.hit_ids",
        "update analytics.hit_days",
        "update analytics.hit_months",
    ]
    updates = [len(command["updates"]) for command in gateway.commands.sent if "updates" in command]
    assert updates == [1, 5, 5]


async def test_calls_at_the_same_time_share_their_commands(gateway: GatewayClient) -> None:
    await record_hits(gateway, hit())
    gateway.commands.clear()

    await asyncio.gather(*(record_hits(gateway, hit()) for _ in range(60)))

    assert len(gateway.commands.sent) <= 60
    assert await total(gateway) == 61


async def test_counters_do_not_grow(gateway: GatewayClient) -> None:
    async def sizes() -> list[int]:
        names = ("analytics.hit_days", "analytics.hit_months")
        return [len(bson.encode(one)) for name in names async for one in gateway.db[name].find({})]

    await record_hits(gateway, hit())
    before = await sizes()

    for start in range(0, 1_440, 480):
        minutes = range(start, start + 480)
        await record_hits(gateway, *(hit(at=MIDNIGHT + timedelta(minutes=minute)) for minute in minutes))

    assert await sizes() == before
    assert await total(gateway) == 1_441


async def test_many_hits_of_one_page_in_one_day_are_counted_exactly(gateway: GatewayClient) -> None:
    batches = 1_000 if IS_SOAK else 10
    line = asyncio.Semaphore(8)

    async def send(number: int) -> None:
        at = MIDNIGHT + timedelta(seconds=number * 86_399 // batches)
        async with line:
            await record_hits(gateway, *[hit(at=at)] * 1_000)

    await asyncio.gather(*map(send, range(batches)))

    assert await total(gateway) == batches * 1_000


# The days on which counters begin and end, and days beside them.
MONTHS = ("1970-01", "1999-12", "2000-01", "2024-02", "2024-03", "2026-12", "2100-02", "2199-12")


def days_of(month: str) -> list[datetime]:
    """The first two days, one in the middle, and the last day of a month."""
    first = datetime.fromisoformat(f"{month}-01")
    return [first, first + DAY, first + 14 * DAY, next_start("MONTH", first) - DAY]


def random_hits(rng: random.Random, count: int) -> list[Given]:
    """Hits of two pages. Some have an id, and some ids are sent several times."""
    hits: dict[str, Given] = {}
    for number in range(count):
        at = rng.choice(days_of(rng.choice(MONTHS))) + timedelta(minutes=rng.randrange(1_440))
        key = f"{rng.randrange(count // 2)}" if rng.random() < 0.6 else None
        # An id that is sent again is the same hit.
        name = key or f"plain {number}"
        hits.setdefault(name, hit(rng.choice("ab"), at, **({"eventId": key} if key else {})))
    return [rng.choice(list(hits.values())) if one.get("eventId") else one for one in hits.values()]


@pytest.mark.parametrize("seed", range(40 if IS_SOAK else 1))
async def test_random_hits_in_any_order_are_counted_as_a_counter_counts_them(gateway: GatewayClient, seed: int) -> None:
    rng = random.Random(seed)
    sent = random_hits(rng, 400)
    batches = [sent[start : start + 20] for start in range(0, len(sent), 20)]
    again = [[one for one in batch if "eventId" in one] for batch in rng.sample(batches, len(batches))]

    # Calls at the same time share a flush. Calls one after the other find the counters that earlier ones have created.
    waiting = [*batches, *again]
    while waiting:
        together = [waiting.pop() for _ in range(min(len(waiting), rng.choice([1, 1, 2, 5])))]
        await asyncio.gather(*(record_hits(gateway, *batch) for batch in together))

    for page in "ab":
        for month in MONTHS:
            first, *others = days_of(month)
            end = next_start("MONTH", first)
            for granularity in ("MONTH", "DAY", "HOUR"):
                wanted = expected(sent, granularity, first, end, page)
                assert await points(gateway, granularity, first, end, page) == wanted
            for day in (first, *others):
                wanted = expected(sent, "MINUTE", day, day + DAY, page)
                assert await points(gateway, "MINUTE", day, day + DAY, page) == wanted


@pytest.mark.parametrize("days", [(2, 1, 1), (1, 2, 1), (31, 2, 1, 31), (1,), (15, 1, 15, 1)])
async def test_hits_on_the_first_of_a_month_are_counted_on_every_level_in_any_order(
    gateway: GatewayClient, days: Sequence[int]
) -> None:
    times = [datetime(2024, 3, day, 10 + number) for number, day in enumerate(days)]  # noqa: DTZ001 - naive UTC
    sent = [hit(at=time) for time in times]

    for one in sent:
        await record_hits(gateway, one)

    begin = datetime(2024, 3, 1)  # noqa: DTZ001 - naive UTC
    end = next_start("MONTH", begin)
    for granularity in ("MONTH", "DAY", "HOUR"):
        assert await points(gateway, granularity, begin, end) == expected(sent, granularity, begin, end)
    for time in times:
        assert await points(gateway, "MINUTE", time, time + timedelta(minutes=1)) == expected(
            sent, "MINUTE", time, time + timedelta(minutes=1)
        )


async def test_only_analysts_read_and_only_services_record(gateway: GatewayClient) -> None:
    await record_hits(gateway, hit())
    reading = asked("DAY", NOON, NOON + DAY)

    for caller in (service(gateway), gateway.as_caller("robin")):
        for page in ("/", "/none"):
            assert (await caller.ask(HITS, {**reading, "page": page})).codes == ["FORBIDDEN"]
    assert (await analyst(gateway).ask(RECORD, {"input": [hit()]})).codes == ["FORBIDDEN"]
