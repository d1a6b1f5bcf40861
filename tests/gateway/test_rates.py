"""What one client may ask for in a minute, in units of cost."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest

from portico.gateway.caller_rates import RateLimited, Rates
from portico.gateway.settings import Settings
from tests.gateway.support.subscribers import acknowledged, data_of
from tests.gateway.support.times import Time
from tests.support.harness import Answer, GatewayClient, SettableClock, running
from tests.support.sockets import listening, streamed, subscribe

# It costs one unit.
ONE = "{ viewer { subject } }"
# Ten categories with one field each, and the fields around them.
PAGE = "{ categories(first: 10) { nodes { slug } } }"
LIMIT = 120


@pytest.fixture
async def limited(
    settings: Settings, clock: SettableClock, time: Time, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[GatewayClient]:
    """A gateway whose allowances refill only when the test sets the time, however long a request takes."""
    monkeypatch.setattr("portico.gateway.app.Rates", partial(Rates, clock=time))
    async with running(replace(settings, caller_rate=LIMIT, address_rate=LIMIT), clock=clock) as gateway:
        yield gateway


def left(answer: Answer) -> int:
    found = re.search(r"r=(\d+)", answer.headers["ratelimit"])
    assert found is not None
    return int(found[1])


async def use_up(gateway: GatewayClient, *, token: str | None) -> Answer:
    """Ask until the gateway refuses. Return the refusal."""
    for _ in range(LIMIT + 5):
        answer = await gateway.ask(PAGE, token=token)
        if answer.status != 200:
            return answer
    raise AssertionError("the gateway refuses nothing")


async def test_every_answer_says_what_is_left_of_the_allowance(limited: GatewayClient) -> None:
    first, second = await limited.ask(PAGE), await limited.ask(PAGE)

    assert first.headers["ratelimit-policy"] == f'"caller";q={LIMIT};w=60'
    assert 1 < left(first) < LIMIT
    assert left(second) < left(first)


async def test_a_client_without_allowance_is_told_when_to_come_back(limited: GatewayClient) -> None:
    refused = await use_up(limited, token="")

    assert (refused.status, refused.codes) == (429, ["RATE_LIMITED"])
    assert "data" not in refused.body
    seconds = refused.body["errors"][0]["extensions"]["retryAfter"]
    assert 0 < seconds <= 60
    assert refused.headers["retry-after"] == str(seconds)


async def test_callers_and_addresses_have_allowances_of_their_own(limited: GatewayClient) -> None:
    await use_up(limited, token="")

    another = await limited.as_caller("another").ask(PAGE)
    anonymous = await use_up(limited, token=None)

    assert another.status == 200
    assert anonymous.codes == ["RATE_LIMITED"]
    assert anonymous.headers["ratelimit-policy"] == f'"address";q={LIMIT};w=60'
    assert (await limited.as_caller("another").ask(PAGE)).status == 200


async def test_a_refused_mutation_changes_nothing(limited: GatewayClient) -> None:
    await use_up(limited, token="")
    text = 'mutation { createCategory(input: { name: "A", slug: "a" }) { __typename ... on CategoryPayload { category {'
    fields = " ".join(f"a{number}: slug" for number in range(LIMIT))

    refused = await limited.ask(f"{text} {fields} }} }} }} }}")

    assert refused.codes == ["RATE_LIMITED"]
    assert await limited.db["categories"].count_documents({}) == 0


async def test_an_invalid_operation_costs_one_unit(limited: GatewayClient) -> None:
    before = left(await limited.ask(ONE))
    for _ in range(10):
        assert (await limited.ask("{ nothing }")).codes == ["GRAPHQL_VALIDATION_FAILED"]

    assert left(await limited.ask(ONE)) <= before - 10


async def test_streams_have_the_same_allowance(limited: GatewayClient) -> None:
    token = limited.token()
    await use_up(limited, token=token)
    async with listening(limited) as port:
        async with acknowledged(port, token) as socket:
            await socket.send(subscribe("1", PAGE))
            over_socket = await socket.receive()
        async with streamed(port, PAGE, token=token) as stream:
            as_event = await data_of(stream)

    assert (over_socket["type"], over_socket["payload"][0]["extensions"]["code"]) == ("error", "RATE_LIMITED")
    assert as_event["errors"][0]["extensions"]["code"] == "RATE_LIMITED"


async def test_without_a_limit_no_header_is_sent(gateway: GatewayClient) -> None:
    answer = await gateway.ask(ONE)

    assert "ratelimit" not in answer.headers


# The allowance over time


@pytest.fixture
def rates(time: Time) -> Rates:
    return Rates(Settings(caller_rate=600, address_rate=600), time)


def charge(rates: Rates, cost: float, subject: str | None = "a", address: str | None = None) -> int:
    """Charge the client. Return in how many seconds it may come back; 0 if it was not refused."""
    meter = rates.meter(subject, address)
    assert meter is not None
    try:
        meter.charge(cost)
    except RateLimited as limited:
        return limited.seconds
    return 0


# The costs that are charged in order, each with the seconds until the client may come back, and the seconds that pass.
REFILLED = [(600, 0, 0), (10, 1, 1), (10, 0, 0), (100, 10, 60), (600, 0, 0)]
# It runs once the allowance is full, and takes longer to refill.
ABOVE = [(1, 0, 0), (1_200, 1, 1), (1_200, 0, 0), (1, 61, 61), (1, 0, 0)]


@pytest.mark.parametrize("charged", [REFILLED, ABOVE], ids=["evenly", "after an operation above the allowance"])
def test_an_allowance_refills(rates: Rates, time: Time, charged: list[tuple[int, int, int]]) -> None:
    for cost, seconds, passed in charged:
        assert charge(rates, cost) == seconds
        time.now += passed


def test_in_any_minute_a_client_gets_at_most_twice_its_allowance(rates: Rates, time: Time) -> None:
    """Once what was saved, and once what is refilled."""
    served = 0
    for _ in range(600):
        served += sum(5 for _ in range(20) if not charge(rates, 5))
        time.now += 0.1

    assert 1_150 <= served <= 1_200


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        (None, None, True),
    ],
)
def test_an_ipv6_client_shares_the_allowance_of_its_subnet(
    rates: Rates, one: str | None, other: str | None, *, is_shared: bool
) -> None:
    charge(rates, 600, None, one)

    assert (charge(rates, 600, None, other) > 0) is is_shared


def test_clients_whose_allowance_is_full_are_forgotten(
    rates: Rates, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.gateway.caller_rates._MOST_KEPT", 100)
    for number in count():
        assert charge(rates, 10, f"caller {number}") == 0
        time.now += 0.1
        if number == 1_000:
            break

    assert rates._caller is not None
    assert len(rates._caller.full_at) <= 101


def test_many_clients_that_stay_are_not_looked_at_for_each_charge(
    rates: Rates, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clients(dict[str, float]):
        looks = 0

        def items(self) -> Any:
            self.looks += 1
            return super().items()

    monkeypatch.setattr("portico.gateway.caller_rates._MOST_KEPT", 100)
    assert rates._caller is not None
    rates._caller.full_at = clients = Clients()
    for number in range(2_000):
        charge(rates, 10, f"caller {number}")

    assert len(clients) == 2_000
    assert clients.looks < 10
