"""Lines of log files, as web servers write them."""

from __future__ import annotations

from typing import Any

import pytest

from portico.gateway.domains.analytics.log_lines import event_of_line
from portico.resolvers.errors import InvalidInput
from portico.schema.scalars import format_instant
from tests.analytics.support.log_lines import AGENT, COMBINED, COMMON


def parsed(line: str | bytes) -> dict[str, Any]:
    found = event_of_line(line.encode() if isinstance(line, str) else line)
    return {**vars(found), "time": format_instant(found.time)}


def refused(line: str | bytes) -> str:
    with pytest.raises(InvalidInput) as raised:
        parsed(line)
    return ": ".join((*raised.value.path, raised.value.message))


def requested(request: str) -> tuple[str, str]:
    """The method and the path of a line with this first line of a request."""
    found = parsed(COMBINED.replace("GET /jazz HTTP/1.1", request))
    return found["method"], found["path"]


def test_the_common_and_the_combined_format_hold_a_request() -> None:
    whole = {
        "host": "192.0.2.1",
        "user": "ada",
        "time": "2026-03-09T12:00:00.000Z",
        "method": "GET",
        "path": "/jazz",
        "status": 200,
        "response_size": 512,
        "referrer": "https://shop.example/",
        "user_agent": AGENT,
        "event_id": None,
    }

    assert parsed(COMBINED) == whole
    assert parsed(COMMON) == {**whole, "referrer": None, "user_agent": None}


def test_fields_after_the_user_agent_are_ignored() -> None:
    assert parsed(f'{COMBINED} "203.0.113.9" 0.004') == parsed(COMBINED)


def test_a_hyphen_stands_for_no_value() -> None:
    found = parsed('192.0.2.1 - - [09/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 304 - "-" "-"')

    assert {name: found[name] for name in ("user", "response_size", "referrer", "user_agent")} == {
        "user": None,
        "response_size": 0,
        "referrer": None,
        "user_agent": None,
    }


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("09/Mar/2026:12:00:00 +0130", "2026-03-09T10:30:00.000Z"),
        ("31/Dec/2025:23:30:00 -0100", "2026-01-01T00:30:00.000Z"),
        ("29/Feb/2024:00:00:00 +0000", "2024-02-29T00:00:00.000Z"),
        ("09/Mar/2026:12:00:00.123456 +0000", "2026-03-09T12:00:00.123Z"),
    ],
)
def test_times_are_in_utc(written: str, instant: str) -> None:
    assert parsed(COMMON.replace("09/Mar/2026:12:00:00 +0000", written))["time"] == instant


@pytest.mark.parametrize(
    ("request_line", "method", "path"),
    [
        ("HEAD /a.b?c=d&e=$x HTTP/1.0", "HEAD", "/a.b?c=d&e=$x"),
        ("GET /$x", "GET", "/$x"),
        ("GET /with blanks HTTP/1.1", "GET", "/with blanks"),
        ("VERSION-CONTROL * HTTP/2", "VERSION-CONTROL", "*"),
        ("CONNECT shop.example:443 HTTP/1.1", "CONNECT", "shop.example:443"),
        ("-", "-", "-"),
        ("", "-", "-"),
        ("hello", "-", "hello"),
        (r"\x16\x03\x01\x02\x00", "-", r"\x16\x03\x01\x02\x00"),
        (r"GET /\"quoted\" HTTP/1.1", "GET", '/"quoted"'),
        (r"GET /\x22quoted\x22\x5C HTTP/1.1", "GET", '/"quoted"\\'),
        (r"GET /a\\b HTTP/1.1", "GET", r"/a\b"),
        (r"GET /caf\xc3\xa9 HTTP/1.1", "GET", "/café"),
        (r"GET /caf\xe9 HTTP/1.1", "GET", r"/caf\xe9"),
        (r"GET /\x00\n HTTP/1.1", "GET", r"/\x00\n"),
        ("GET /日本 HTTP/1.1", "GET", "/日本"),
    ],
)
def test_requests_are_read_as_the_server_received_them(request_line: str, method: str, path: str) -> None:
    """Control characters, and bytes that are not UTF-8, stay escaped."""
    assert requested(request_line) == (method, path)


def test_a_user_can_have_blanks_and_a_host_can_be_any_address() -> None:
    found = parsed(COMMON.replace("192.0.2.1 - ada", "2001:db8::1 ident Ada Lovelace"))

    assert (found["host"], found["user"]) == ("2001:db8::1", "Ada Lovelace")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (COMBINED[:-1], "the user agent has no closing quote, at character 99"),
        (COMMON.replace(' HTTP/1.1"', ""), "the request has no closing quote, at character 46"),
        (f"{COMMON} https://shop.example/", "the referrer is not valid, at character 75"),
        (f"shop.example:80 {COMMON.replace('ada', '-')}", "the user is not valid, at character 27"),
        (COMMON.replace("[", ""), "the user is not valid, at character 13"),
        (COMMON.replace("200", "20"), "the status is not valid, at character 67"),
        (COMMON.replace("512", "x"), "the size is not valid, at character 71"),
        ("nonsense", "the host is not valid, at character 1"),
    ],
)
def test_a_line_in_another_format_is_refused_with_the_place(line: str, reason: str) -> None:
    assert refused(line) == f"neither JSON nor in the combined or the common log format: {reason}"


def test_a_wrong_time_is_named() -> None:
    for written, reason in (
        ("2026-03-09", "the time must be like 09/Mar/2026:12:00:00 +0100; got '2026-03-09'"),
        ("09/Foo/2026:12:00:00 +0000", "the time must be like"),
        ("31/Feb/2026:12:00:00 +0000", "there is no such time: '31/Feb/2026:12:00:00 +0000'"),
        ("01/Jan/0001:00:00:00 +0900", "there is no such time"),
        ("01/Jan/2026:00:00:00 +2400", "there is no such time"),
    ):
        assert refused(COMMON.replace("09/Mar/2026:12:00:00 +0000", written)).startswith(reason)


def test_a_line_that_is_not_utf8_is_refused_with_the_byte() -> None:
    assert refused(COMMON.encode().replace(b"/jazz", b"/caf\xe9")) == "not UTF-8: byte 0xe9, at byte 55"
    assert refused(b'{"host": "\xff"}') == "not UTF-8: byte 0xff, at byte 11"


def test_json_has_the_fields_of_the_mutation_or_of_a_converted_log() -> None:
    own = (
        '{"eventId": "1", "host": "192.0.2.1", "user": "ada", "time": "2026-03-09T13:00:00+01:00", "path": "/jazz", '
        '"responseSize": 512, "referrer": "https://shop.example/", "userAgent": "AGENT"}'.replace("AGENT", AGENT)
    )
    converted = (
        '{"line": 1, "ip": "192.0.2.1", "ident": "-", "user": "ada", "time": "09/Mar/2026:12:00:00 +0000", '
        '"method": "GET", "path": "/jazz", "status": 200, "bytes": 512, "referrer": "https://shop.example/", '
        '"agent": "AGENT"}'.replace("AGENT", AGENT)
    )

    assert parsed(own) == {**parsed(COMBINED), "event_id": "1"}
    assert parsed(converted) == parsed(COMBINED)
    nothing = converted.replace('"ada"', '"-"').replace("512", "null").replace("https://shop.example/", "-")
    assert parsed(nothing) == {**parsed(COMBINED), "user": None, "response_size": 0, "referrer": None}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"host": "a"', "not JSON: unexpected end of data, at character 13"),
        ('{"host": "a", "time": "2026-03-09T12:00:00Z"}', "path: is missing"),
        ('{"host": "a", "time": "yesterday", "path": "/"}', "time: `DateTime` must be an RFC 3339 string"),
        ('{"host": "a", "time": "1/2/3", "path": "/"}', "time: the time must be like"),
        ('{"ip": "a", "time": "2026-03-09T12:00:00Z", "path": "/", "status": "200"}', "status: must be a whole number"),
        ('{"host": "a", "time": "2026-03-09T12:00:00Z", "path": "/", "size": 1}', "size: unknown field"),
        ('{"host": 1, "time": "2026-03-09T12:00:00Z", "path": "/"}', "host: must be a string"),
    ],
)
def test_a_wrong_value_of_json_is_named(line: str, reason: str) -> None:
    assert refused(line).startswith(reason)


@pytest.mark.parametrize(
    "line",
    [
        '192.0.2.1 - - [09/Mar/2026:12:00:00 +0000] "' + "\\" * 1_000_000,
        "192.0.2.1 - " + "a " * 500_000,
        "192.0.2.1 - " + "a [" * 300_000,
        COMMON.replace("/jazz HTTP/1.1", " HTTP/1" * 100_000 + 'x"'),
        f'{COMMON} "' + 'a\\" ' * 200_000,
    ],
    ids=["backslashes", "blanks", "brackets", "versions", "quotes"],
)
def test_a_hostile_line_takes_linear_time(line: str) -> None:
    """With backtracking, this test would not end."""
    assert "log format: the " in refused(line)
