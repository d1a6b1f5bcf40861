"""The parameters of a URL are decoded as the standard library decodes them."""

from __future__ import annotations

import random
from urllib.parse import parse_qsl, urlencode

import pytest

from portico.gateway.http.parameters import parameters_of

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
