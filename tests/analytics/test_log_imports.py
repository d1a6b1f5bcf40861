"""Imported log files: every line once, however often and in whatever form its file is imported."""

from __future__ import annotations

import asyncio
import gzip
import re
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from portico.gateway.imports.runs import MAX_LINE, BadRecord, Import
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.schema.scalars import parse_instant
from tests.analytics.support.log_events import log, logged, page_counts, paths
from tests.analytics.support.log_lines import COMBINED, COMMON
from tests.support import real_data
from tests.support.domains import IMPORTERS
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, running, with_settings
from tests.support.processes import environment, own_database, portico, started

Counts = dict[str, int]
EVENTS = "analytics.log_events"
DAY = timedelta(days=1)


@pytest.fixture
def imported(gateway: GatewayClient, tmp_path: Path) -> Any:
    """A function that imports a file of this content. Returns the counts, and the reasons of bad lines."""

    async def run(content: bytes | str, **options: Any) -> tuple[Counts, dict[int, str]]:
        file = tmp_path / "access.log"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return await run_import(gateway, file, **options)

    return run


async def run_import(gateway: GatewayClient, *files: Path, **options: Any) -> tuple[Counts, dict[int, str]]:
    bad: list[BadRecord] = []
    importer = IMPORTERS["logs"].configured(options)
    work = Import(gateway.db, importer, gateway.clock, bad.append, lambda _: None, gateway.state.resources)
    summary = await work.run(files)
    return dict(summary.counts), {one.line: one.reason for one in bad}


def line(path: str = "/", second: int = 0, host: str = "192.0.2.1") -> str:
    return f'{host} - - [09/Mar/2026:12:00:{second:02} +0000] "GET {path} HTTP/1.1" 200 5 "-" "Firefox"\n'


async def test_a_byte_order_mark_at_the_beginning_of_a_file_is_ignored(gateway: GatewayClient, imported: Any) -> None:
    own = '{"host": "192.0.2.2", "time": "2026-03-09T12:00:01Z", "path": "/own"}\n'
    assert await imported("\N{BYTE ORDER MARK}" + line("/jazz") + own) == ({"created": 2}, {})
    assert await imported(line("/jazz")) == ({"unchanged": 1}, {})
    assert await imported("\N{BYTE ORDER MARK}" + own) == ({"unchanged": 1}, {})
    assert await imported(gzip.compress(f"\N{BYTE ORDER MARK}{own}".encode())) == ({"unchanged": 1}, {})
    assert {event["host"] for event in (await logged(gateway))["nodes"]} == {"192.0.2.1", "192.0.2.2"}


async def test_lines_of_all_formats_become_log_events(gateway: GatewayClient, imported: Any) -> None:
    own = {"host": "192.0.2.2", "time": "2026-03-09T12:00:01Z", "path": "/own", "status": 404}
    content = f"{COMBINED}\r\n\n{COMMON.replace('/jazz', '/soul')}\n{orjson.dumps(own).decode()}\n"

    assert await imported(content) == ({"created": 3}, {})

    found = (await logged(gateway))["nodes"]
    assert [(one["path"], one["status"], one["user"]) for one in found] == [
        ("/own", 404, None),
        ("/soul", 200, "ada"),
        ("/jazz", 200, "ada"),
    ]
    assert [one["referrer"] for one in found] == [None, None, "https://shop.example/"]


async def test_importing_a_file_again_changes_nothing(gateway: GatewayClient, imported: Any) -> None:
    content = "".join(line(f"/{number}", number) for number in range(50))

    first = await imported(content)
    again = await imported(content)
    packed = await imported(gzip.compress(content.encode()))
    with_other_ends = await imported(content.replace("\n", "\r\n"))
    longer = await imported(content + line("/new"))

    assert first == ({"created": 50}, {})
    assert again == packed == with_other_ends == ({"unchanged": 50}, {})
    assert longer == ({"created": 1, "unchanged": 50}, {})
    assert len(await paths(gateway)) == 51


async def test_equal_lines_of_a_file_are_separate_requests(gateway: GatewayClient, imported: Any) -> None:
    assert await imported(line() * 3) == ({"created": 3}, {})
    assert await imported(line() * 4 + line("/other")) == ({"created": 2, "unchanged": 3}, {})

    assert [one["hits"] for one in await page_counts(gateway)] == [4, 1]


async def test_equal_lines_of_two_sources_are_separate_requests(gateway: GatewayClient, imported: Any) -> None:
    runs = [await imported(line(), source=source) for source in ("one", "two", "one")]

    assert runs == [({"created": 1}, {}), ({"created": 1}, {}), ({"unchanged": 1}, {})]
    assert len(await paths(gateway)) == 2


async def test_an_event_id_in_a_file_is_the_one_of_the_mutation(gateway: GatewayClient, imported: Any) -> None:
    given = {"host": "192.0.2.1", "time": "2026-03-09T12:00:00Z", "path": "/", "eventId": "1"}

    await log(gateway, given)

    assert await imported(orjson.dumps(given) + b"\n" + orjson.dumps(given)) == ({"unchanged": 2}, {})
    assert await imported(orjson.dumps({**given, "eventId": "2"})) == ({"created": 1}, {})


async def test_any_path_is_kept_as_it_is(gateway: GatewayClient, imported: Any) -> None:
    given = ["/a.b", "/$x", "$x.$", "/{}", "/" + "x" * 8_191, "/\u202e", "/%00", "/'\"".replace('"', '\\"')]

    assert await imported("".join(line(path) for path in given)) == ({"created": len(given)}, {})

    assert set(await paths(gateway)) == {path.replace("\\", "") for path in given}
    assert await paths(gateway, path="$x.$") == ["$x.$"]


async def test_bad_lines_are_named_and_the_others_are_recorded(gateway: GatewayClient, imported: Any) -> None:
    bad: list[tuple[bytes, str]] = [
        (line("/caf").encode().replace(b"/caf", b"/caf\xe9"), "not UTF-8: byte 0xe9"),
        (line().rstrip('"\n').encode(), "neither JSON nor in the combined or the common log format: the user agent"),
        (line("/" + "x" * 8_192).encode(), "path: Path has 8,193 characters; 8,192 are allowed."),
        (line("x" * (2 * MAX_LINE)).encode(), "the line is longer than 16 MiB"),
        (line(host="x" * 256).encode(), "host: Host has 256 characters; 255 are allowed."),
        (line().replace("2026", "2200").encode(), "time: The time must be in the years 1970 to 2199."),
        (line().replace(" 200 ", " 000 ").encode(), "status: Status must be between 100 and 999."),
        (line().replace(" 5 ", " 9007199254740992 ").encode(), "responseSize: Response size must be between"),
        (line().replace("GET", "x" * 33).encode(), ""),
        (line("/\0").encode(), "path: Path holds a NUL character."),
        (b'{"host": "a", "path": "/", "time": "2026-03-09"}', "time: `DateTime` must be an RFC 3339 string"),
    ]
    content = b"".join(one.rstrip(b"\n") + b"\n" + line("/good").encode() for one, _ in bad)

    counts, reasons = await imported(content)

    # The request with an unknown method is what the client sent.
    assert counts == {"created": len(bad) + 1, "failed": len(bad) - 1}
    for number, (_, reason) in enumerate(bad):
        assert reasons.get(2 * number + 1, "").startswith(reason), (reason, reasons)
    assert Counter(await paths(gateway))["/good"] == len(bad)


async def test_lines_that_are_too_old_to_be_kept_are_refused(
    settings: Any, clock: SettableClock, tmp_path: Path
) -> None:
    async with running(with_settings(settings, AnalyticsSettings, log_days=30.0), clock=clock) as gateway:
        now = clock.now()
        times = [f"{now - timedelta(days=days):%d/%b/%Y:%H:%M:%S} +0000" for days in (1, 31)]
        file = tmp_path / "access.log"
        file.write_text("".join(line().replace("09/Mar/2026:12:00:00 +0000", one) for one in times))

        counts, reasons = await run_import(gateway, file)

        assert (counts, list(reasons)) == ({"created": 1, "failed": 1}, [2])
        assert reasons[2] == "time: The time is too long ago: such events are deleted."


def combined_line(row: dict[str, Any]) -> str:
    """The line of Apache that a row was converted from."""
    size = "-" if row["bytes"] is None else row["bytes"]
    request = f"{row['method']} {row['path']} {row['protocol']}"
    return (
        f'{row["ip"]} {row["ident"]} {row["user"]} [{row["time"]}] "{request}" {row["status"]} {size} '
        f'"{row["referrer"]}" "{row["agent"]}"\n'
    )


def time_of(row: dict[str, Any]) -> datetime:
    # Python's own parser. All times of the log are in UTC.
    return datetime.strptime(row["time"], "%d/%b/%Y:%H:%M:%S +0000")  # noqa: DTZ007 - stored times are naive UTC


def some_of_the_log() -> list[real_data.Line]:
    """Returns a quarter of the events of a real log. In a soak, returns all of them."""
    rows = real_data.rows("access_logs")
    assert len(rows) == 10_000
    return real_data.some(rows, 4)


async def test_a_real_log_is_counted_as_pythons_counter_counts_it(gateway: GatewayClient, tmp_path: Path) -> None:
    rows = some_of_the_log()
    source = real_data.write(tmp_path / "access_logs.jsonl", rows)
    packed = tmp_path / "access_logs.jsonl.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))

    assert await run_import(gateway, source) == ({"created": len(rows)}, {})
    assert await run_import(gateway, packed) == ({"unchanged": len(rows)}, {})
    await assert_counted(gateway, rows)


async def test_the_lines_of_a_real_log_are_counted_the_same(gateway: GatewayClient, tmp_path: Path) -> None:
    rows = some_of_the_log()
    rebuilt, packed = tmp_path / "access.log", tmp_path / "access.log.1.gz"
    rebuilt.write_text("".join(map(combined_line, rows)))
    packed.write_bytes(gzip.compress(rebuilt.read_bytes()))

    assert await run_import(gateway, rebuilt) == ({"created": len(rows)}, {})
    assert await run_import(gateway, packed) == ({"unchanged": len(rows)}, {})
    await assert_counted(gateway, rows)


async def assert_counted(gateway: GatewayClient, rows: Sequence[dict[str, Any]]) -> None:
    """Asserts that the counts of pages, and the requests of pages and hosts, are those that `Counter` finds."""
    days = [time_of(row).date() for row in rows]
    hits = Counter((row["path"], day) for row, day in zip(rows, days, strict=True))
    visitors = Counter(
        (path, day) for path, day, _ in {(row["path"], day, row["ip"]) for row, day in zip(rows, days, strict=True)}
    )
    expected = sorted(hits, key=lambda key: (-hits[key], key[0].encode(), key[1]))[:1_000]

    found = await page_counts(gateway, min(map(time_of, rows)), max(map(time_of, rows)) + DAY, limit=1_000)

    assert [(one["path"], one["day"][:10]) for one in found] == [(path, f"{day}") for path, day in expected]
    assert [one["hits"] for one in found] == [hits[key] for key in expected]
    assert [one["visitors"] for one in found] == [visitors[key] for key in expected]
    for name, field in (("path", "path"), ("host", "ip")):
        ((value, number),) = Counter(row[field] for row in rows).most_common(1)
        times = sorted((time_of(row) for row in rows if row[field] == value), reverse=True)
        assert await all_times(gateway, **{name: value}) == times, value
        assert len(times) == number


async def all_times(gateway: GatewayClient, **conditions: Any) -> list[datetime]:
    times: list[datetime] = []
    after = None
    while True:
        page = await logged(gateway, after=after, **conditions)
        times += [parse_instant(one["time"]) for one in page["nodes"]]
        if not page["pageInfo"]["hasNextPage"]:
            return times
        after = page["pageInfo"]["endCursor"]


async def test_an_import_that_is_killed_can_be_completed(mongodb_uri: str, tmp_path: Path) -> None:
    """The process is killed with SIGKILL while it stores records."""
    number = 12_000 if IS_SOAK else 6_000
    file = tmp_path / "access.log"
    file.write_text("".join(line(f"/{one % 100}", one % 60, f"192.0.2.{one % 7}") for one in range(number)))
    with own_database(mongodb_uri, tmp_path) as settings:
        env = environment(settings)
        async with running(settings) as gateway:
            events = gateway.db[EVENTS]
            with started(tmp_path / "killed", env, "import", "logs", str(file), is_new=True) as process:
                deadline = time.monotonic() + 120
                while not await events.find_one({}):
                    assert time.monotonic() < deadline, process.errors
                    await asyncio.sleep(0.01)
                process.kill()
            stored = await events.count_documents({})

            done = portico("import", "logs", str(file), env=env, timeout=180)

            assert done.returncode == 0, done.stderr
            counts = {name: int(count.replace(",", "")) for count, name in re.findall(r"(\d[\d,]*) (\w+)", done.stdout)}
            assert counts.keys() == {"created", "unchanged"}
            assert counts["created"] + counts["unchanged"] == number
            # MongoDB finishes a command whose sender is killed, so more can be stored than was found after the kill.
            assert 0 < stored <= counts["unchanged"] < number
            assert await events.count_documents({}) == number
            assert {one["hits"] for one in await page_counts(gateway, limit=1_000)} == {number // 100}


def test_the_command_names_the_line_and_the_source_is_an_option(mongodb_uri: str, tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    file.write_text(line() + "nonsense\n" + line("/two"))
    with own_database(mongodb_uri, tmp_path) as settings:
        env = environment(settings)
        first = portico("import", "logs", str(file), "--source", "one", env=env)
        again = portico("import", "logs", str(file), "--source", "one", env=env)
        other = portico("import", "logs", str(file), "--source", "two", env=env)

    assert [one.returncode for one in (first, again, other)] == [1, 1, 1]
    assert f"{file}:2: neither JSON nor in the combined" in first.stderr
    assert "logs: 2 created, 1 failed" in first.stdout
    assert "logs: 2 unchanged, 1 failed" in again.stdout
    assert "logs: 2 created, 1 failed" in other.stdout


def test_the_help_of_the_command_says_what_it_reads() -> None:
    shown = portico("import", "logs", "--help").stdout

    assert "Import logs from log files of Apache or nginx, or JSON Lines." in shown
    assert "--source NAME" in shown
