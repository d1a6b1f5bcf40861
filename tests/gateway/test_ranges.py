"""What a request asks for in its headers and its URL: ranges, conditions, and parameters."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from portico.gateway.http.parameters import parameters_of
from portico.gateway.pages.ranges import MAX_RANGES, NotSatisfiable, Span, precondition_status, requested_spans

# Ranges and conditions

TAG = '"abc"'
MODIFIED = datetime.fromisoformat("2024-05-06T07:08:09.123")
EXACT, EARLIER, LATER = (
    "Mon, 06 May 2024 07:08:09 GMT",
    "Mon, 06 May 2024 07:08:08 GMT",
    "Mon, 06 May 2024 07:08:10 GMT",
)
# Dates with a valid form that are out of range: the first is in the year 10000 in UTC.
BEYOND, HUGE = "Fri, 31 Dec 9999 23:59:59 -2300", "Sat, 99999999999999999999 Jan 2020 00:00:00 GMT"
DATA = bytes(range(100))


def spans(asked: str | None, length: int = 100, **others: str) -> list[tuple[int, int]] | None:
    headers = {} if asked is None else {"range": asked}
    headers |= {name.replace("_", "-"): value for name, value in others.items()}
    found = requested_spans(Headers(headers), length, tag=TAG, modified=MODIFIED)
    return None if found is None else [tuple(span) for span in found]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, None),
        ("bytes=0-0", [(0, 1)]),
        ("bytes=0-", [(0, 100)]),
        ("bytes=99-", [(99, 100)]),
        ("bytes=10-19", [(10, 20)]),
        ("bytes=90-1000", [(90, 100)]),
        ("bytes=-1", [(99, 100)]),
        ("bytes=-1000", [(0, 100)]),
        ("BYTES=0-1", [(0, 2)]),
        ("bytes= 0-1 , 3-4 ", [(0, 2), (3, 5)]),
        ("bytes=0-1,,3-4", [(0, 2), (3, 5)]),
        ("bytes=50-60,0-1", [(50, 61), (0, 2)]),
        ("bytes=0-1,200-300", [(0, 2)]),
        ("bytes=0-1,-0", [(0, 2)]),
        # Not a range of bytes: the whole file.
        ("bytes", None),
        ("bytes=", None),
        ("bytes=,", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=5-4", None),
        ("bytes=0-1;2-3", None),
        ("bytes=0 - 1", None),
        ("bytes=+0-1", None),
        ("bytes=0-1,x", None),
        ("items=0-1", None),
        ("bytes=²-³", None),
        # Too many ranges, or too large ones.
        ("bytes=0-,0-", None),
        ("bytes=0-60,30-90", None),
        ("bytes=" + ",".join(["0-0"] * MAX_RANGES), [(0, 1)] * MAX_RANGES),
        ("bytes=" + ",".join(["0-0"] * (MAX_RANGES + 1)), None),
    ],
)
def test_a_range_header_is_parsed(asked: str | None, expected: list[tuple[int, int]] | None) -> None:
    assert spans(asked) == expected


@pytest.mark.parametrize(
    "asked", ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=500-600,700-", "bytes=9999999999-"]
)
def test_a_range_beyond_the_end_is_not_satisfiable(asked: str) -> None:
    with pytest.raises(NotSatisfiable):
        spans(asked)


def test_an_empty_file_has_no_range() -> None:
    with pytest.raises(NotSatisfiable):
        spans("bytes=0-", 0)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(0, 120), st.integers(0, 120)),
            st.tuples(st.integers(0, 120), st.none()),
            st.tuples(st.none(), st.integers(0, 120)),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_ranges_are_equal_to_slices(asked: list[tuple[int | None, int | None]]) -> None:
    text = ",".join(f"{'' if a is None else a}-{'' if b is None else b}" for a, b in asked)
    slices = []
    for first, last in asked:
        if first is None:
            slices.append(DATA[-last:] if last else b"")
        else:
            slices.append(DATA[first:] if last is None else DATA[first : last + 1])
    is_valid = all(a is None or b is None or a <= b for a, b in asked)
    expected = [one for one in slices if one]

    try:
        found = spans(f"bytes={text}")
    except NotSatisfiable:
        assert is_valid
        assert expected == []
        return

    if found is None:
        assert not is_valid or sum(map(len, expected)) > len(DATA)
    else:
        assert [DATA[start:end] for start, end in found] == expected


@given(st.text(max_size=30))
def test_random_text_is_a_valid_range_or_none(text: str) -> None:
    try:
        found = requested_spans(
            Headers(raw=[(b"range", text.encode("latin-1", "replace"))]), 100, tag=TAG, modified=MODIFIED
        )
    except NotSatisfiable:
        return
    assert found is None or all(Span(0, 100).start <= span.start < span.end <= 100 for span in found)


@pytest.mark.parametrize(
    ("condition", "is_range"),
    [
        ('"abc"', True),
        ('"other"', False),
        # A weak tag does not guarantee that the bytes are the same.
        ('W/"abc"', False),
        (EXACT, True),
        (EARLIER, False),
        (LATER, False),
        ("nonsense", False),
        (BEYOND, False),
        ("", False),
    ],
)
def test_if_range_sends_a_part_only_of_the_same_version(condition: str, is_range: bool) -> None:
    assert (spans("bytes=0-1", if_range=condition) == [(0, 2)]) is is_range


def status(method: str = "GET", **conditions: str) -> int | None:
    headers = Headers({name.replace("_", "-"): value for name, value in conditions.items()})
    return precondition_status(headers, method, tag=TAG, modified=MODIFIED)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, None),
        ({"if_none_match": '"abc"'}, 304),
        ({"if_none_match": 'W/"abc"'}, 304),
        ({"if_none_match": "*"}, 304),
        ({"if_none_match": '"x", "abc"'}, 304),
        ({"if_none_match": '"x,y","abc"'}, 304),
        ({"if_none_match": '"x"'}, None),
        ({"if_none_match": "abc"}, None),
        ({"if_modified_since": EXACT}, 304),
        ({"if_modified_since": LATER}, 304),
        ({"if_modified_since": EARLIER}, None),
        ({"if_modified_since": "yesterday"}, None),
        ({"if_modified_since": BEYOND}, None),
        ({"if_modified_since": HUGE}, None),
        # A tag takes precedence over a time.
        ({"if_none_match": '"x"', "if_modified_since": LATER}, None),
        ({"if_none_match": '"abc"', "if_modified_since": EARLIER}, 304),
        ({"if_match": '"abc"'}, None),
        ({"if_match": "*"}, None),
        ({"if_match": '"x"'}, 412),
        ({"if_match": 'W/"abc"'}, 412),
        ({"if_match": '"x"', "if_none_match": '"abc"'}, 412),
        ({"if_match": '"abc"', "if_none_match": '"abc"'}, 304),
        ({"if_unmodified_since": EXACT}, None),
        ({"if_unmodified_since": EARLIER}, 412),
        ({"if_unmodified_since": "tomorrow"}, None),
        ({"if_unmodified_since": BEYOND}, None),
        ({"if_unmodified_since": HUGE}, None),
        ({"if_match": '"abc"', "if_unmodified_since": EARLIER}, None),
    ],
)
def test_conditional_requests_get_the_expected_status(conditions: dict[str, str], expected: int | None) -> None:
    assert status(**conditions) == expected
    assert status("HEAD", **conditions) == expected


def test_without_a_date_only_the_tag_counts() -> None:
    for name in ("if-modified-since", "if-unmodified-since"):
        assert precondition_status(Headers({name: EARLIER}), "GET", tag=TAG, modified=None) is None
    both = Headers({"if-none-match": TAG, "if-modified-since": EARLIER})
    assert precondition_status(both, "GET", tag=TAG, modified=None) == 304


_DATE_PARTS = st.sampled_from(
    ["Fri,", "31", "Dec", "9999", "0001", "23:59:59", "::", "-2300", "+99999999999", "GMT", "9" * 30, ",", "\xb2", "-"]
)


@given(st.lists(_DATE_PARTS, max_size=8).map(" ".join))
def test_random_text_is_a_valid_date_or_none(text: str) -> None:
    assert status(if_modified_since=text) in {None, 304}
    assert status(if_unmodified_since=text) in {None, 412}


def test_if_none_match_refuses_a_write_to_an_existing_file() -> None:
    assert status("PUT", if_none_match='"abc"') == 412
    assert status("PUT", if_modified_since=LATER) is None


def test_times_are_compared_to_the_second() -> None:
    headers = Headers({"if-modified-since": EXACT})
    assert precondition_status(headers, "GET", tag=TAG, modified=MODIFIED + timedelta(seconds=1)) is None


# Parameters

PARTS = [b"%", b"=", b"+", b"&", b"a", b"3D", b"%0A", b"%0D%0A", b"_", b"%20", b"%3d", b"%C3%A9", b"%C3", b"F", b"%00"]


def expected(query_string: bytes) -> dict[str, str] | None:
    try:
        return dict(parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20))
    except ValueError:
        return None


def found(query_string: bytes) -> dict[str, str] | None:
    try:
        return parameters_of(query_string)
    except ValueError:
        return None


def test_any_text_is_decoded_as_by_the_standard_library() -> None:
    rng = random.Random(1)
    for _ in range(50_000):
        text = b"".join(rng.choices(PARTS, k=rng.randrange(14)))
        assert found(text) == expected(text), text


@pytest.mark.parametrize("fields", [20, 21])
def test_the_number_of_parameters_is_bounded(fields: int) -> None:
    text = b"&".join(b"n%d=1" % number for number in range(fields))
    assert found(text) == expected(text)
    assert (found(text) is None) == (fields > 20)


def test_a_text_that_is_not_ascii_is_refused() -> None:
    assert found(b"query=\xc3\xa9") is expected(b"query=\xc3\xa9") is None


def test_an_operation_is_decoded() -> None:
    given = {"query": '{ product(sku: "é + %41=&") { title } }', "variables": '{"a": "\\u00e9"}'}
    assert parameters_of(urlencode(given).encode()) == given
