"""Cursors: only the deployment makes and reads them, and they show nothing of the rows that they are for."""

from __future__ import annotations

import asyncio
import itertools
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from datetime import datetime

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from portico.gateway.cursor_secret import cursors_of
from portico.gateway.settings import Settings
from portico.resolvers.configuration import HttpUrl, Secret
from portico.resolvers.cursors import Cursors
from portico.resolvers.errors import InvalidInput
from portico.resolvers.shared_secrets import SECRETS, shared_secret
from tests.catalog.support.catalog import add_products, album
from tests.support.harness import GatewayClient, running

CURSORS = Cursors(b"a secret")
BINDING = b"this list"
KEYS = st.lists(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(st.characters(codec="utf-8")),
        st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1)).map(lambda time: time.replace(microsecond=0)),  # noqa: DTZ001 - as the driver gives it
        st.binary(min_size=12, max_size=12).map(ObjectId),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
PRODUCTS = "query ($after: String) { products(first: 1, after: $after) { nodes { sku } pageInfo { endCursor } } }"


@given(key=KEYS)
def test_a_cursor_keeps_its_position(key: tuple[object, ...]) -> None:
    cursor = CURSORS.encode(BINDING, key)

    assert CURSORS.decode(BINDING, len(key), cursor) == key
    assert CURSORS.encode(BINDING, key) == cursor


@given(key=KEYS, place=st.integers(0, 10_000), change=st.integers(1, 255))
def test_a_changed_cursor_is_refused(key: tuple[object, ...], place: int, change: int) -> None:
    sealed = bytearray(urlsafe_b64decode(CURSORS.encode(BINDING, key) + "=="))
    sealed[place % len(sealed)] ^= change

    with pytest.raises(InvalidInput):
        CURSORS.decode(BINDING, len(key), urlsafe_b64encode(sealed).rstrip(b"=").decode())


@pytest.mark.parametrize("cursor", ["", "x", "é", "\ud800", "=", "A" * 107, "A" * 100_000, " "])
def test_a_text_that_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput):
        CURSORS.decode(BINDING, 1, cursor)


def test_a_cursor_has_one_text() -> None:
    cursor = CURSORS.encode(BINDING, ("ann",))

    for text in (f"{cursor}=", f"{cursor}\n", f" {cursor}", cursor[:-1] + chr(ord(cursor[-1]) + 1)):
        with pytest.raises(InvalidInput):
            CURSORS.decode(BINDING, 1, text)


def test_a_cursor_of_another_list_or_another_deployment_is_refused() -> None:
    cursor = CURSORS.encode(BINDING, ("ann",))

    for others, binding in ((CURSORS, b"another list"), (Cursors(b"another secret"), BINDING)):
        with pytest.raises(InvalidInput):
            others.decode(binding, 1, cursor)


def test_a_cursor_shows_nothing_of_its_position() -> None:
    subjects = ["a", "ann", "3f8c5e9e-7d66-4a2b-9a2a-0c4f6f0f8f10", "auth0|5f7c8ec7c33c6c004bbafe82"]
    sealed = [urlsafe_b64decode(CURSORS.encode(BINDING, (subject,)) + "==") for subject in subjects]

    # All have the same length, and nothing in common.
    assert len({len(one) for one in sealed}) == 1
    for one, other in itertools.pairwise(sealed):
        assert sum(left == right for left, right in zip(one, other, strict=True)) < 5
    assert not any(subject.encode() in one for subject, one in zip(subjects[1:], sealed[1:], strict=True))


async def test_gateways_of_a_deployment_read_the_cursors_of_each_other(settings: Settings) -> None:
    async with running(settings) as one:
        await add_products(one.db, [album(sku="a"), album(sku="b")])
        page = (await one.data(PRODUCTS))["products"]
        given = {"after": page["pageInfo"]["endCursor"]}
        async with running(settings) as other:
            following = (await other.data(PRODUCTS, given))["products"]
            assert {row["sku"] for row in page["nodes"] + following["nodes"]} == {"a", "b"}
        async with running(replace(settings, jwt_secret=Secret("another secret of more than 32 bytes"))) as stranger:
            assert (await stranger.ask(PRODUCTS, given)).codes == ["BAD_USER_INPUT"]


async def test_without_a_secret_for_tokens_gateways_share_one_in_the_database(gateway: GatewayClient) -> None:
    outside = replace(gateway.settings, jwt_secret=None, jwks_url=HttpUrl("https://issuer.example/keys"))
    await gateway.db[SECRETS.name].delete_many({})

    one, *others = await asyncio.gather(*(cursors_of(outside, gateway.db) for _ in range(10)))

    cursor = one.encode(BINDING, ("ann",))
    assert [other.decode(BINDING, 1, cursor) for other in others] == [("ann",)] * 9
    assert await gateway.db[SECRETS.name].count_documents({}) == 1
    assert len(await shared_secret(gateway.db, "cursors")) == 32
    with pytest.raises(InvalidInput):
        (await cursors_of(gateway.settings, gateway.db)).decode(BINDING, 1, cursor)
