"""Claims that wait for the outcome of other claims: they keep nobody waiting, and look at the counter seldom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from portico.resolvers.ads import counters
from portico.resolvers.ads.ads import ad_key
from portico.resolvers.ads.claiming import EXHAUSTED, FILLED, GRANTED, Counters, Outcome
from portico.resolvers.ads.counters import Changes, CountedAd
from portico.resolvers.writes.timer import Timer
from tests.support.harness import GatewayClient, SettableClock

# The pauses before an update grow to the longest one, in seconds, after this many shorter ones.
_LONGEST_PAUSE, _SHORTER_PAUSES = 0.05, 5
AD = CountedAd(ad_key("acme:spring", "banner"), "acme:spring", "banner")


class StoppedTimer(Timer):
    """The timer of a call for which no time passes, so that its patience does not depend on the machine."""

    @property
    def seconds(self) -> float:
        return 0.0


class Claims:
    """Claims on an ad, over the queue of one process."""

    def __init__(self, gateway: GatewayClient, clock: SettableClock) -> None:
        self.gateway, self.clock = gateway, clock
        self.writer = gateway.state.resources.of(Counters)

    async def of_another_process(self, number: int, cap: int) -> None:
        """Claims impressions for another process."""
        self.others = [counters.random_token() for _ in range(number)]
        claims = [{"token": token, "at": self.clock.now(), "profile": "another"} for token in self.others]
        await counters.apply(self.gateway.db, AD, Changes(cap=cap, claims=claims))

    async def assert_exhausted(self, asked: Sequence[asyncio.Task[Outcome]]) -> None:
        """Asserts that these claims get nothing as soon as the other process has shown its ads."""
        await counters.apply(self.gateway.db, AD, Changes(concluded=self.others))
        assert await self.outcomes(asked) == {EXHAUSTED}

    def ask(self, number: int, cap: int, *, is_patient: bool = True) -> list[asyncio.Task[Outcome]]:
        return [asyncio.create_task(self._ask(cap, is_patient=is_patient)) for _ in range(number)]

    async def _ask(self, cap: int, *, is_patient: bool) -> Outcome:
        claim = {"token": counters.random_token(), "profile": "own"}
        timer = StoppedTimer(self.clock.now())
        return await self.writer.claim(self.gateway.db, AD, cap=cap, claim=claim, timer=timer, is_patient=is_patient)

    async def assert_looks_seldom(self) -> None:
        """Asserts that there is a pause before each update of the counter that tries the waiting claims again."""
        loop = asyncio.get_running_loop()
        self.gateway.commands.clear()
        begun = loop.time()
        await asyncio.sleep(0.3)
        updates, seconds = len(self.gateway.commands.sent), loop.time() - begun
        assert 0 < updates <= _SHORTER_PAUSES + 1 + seconds / _LONGEST_PAUSE

    @staticmethod
    async def outcomes(asked: Sequence[asyncio.Task[Outcome]]) -> set[Outcome]:
        return set(await asyncio.gather(*asked))


@pytest.fixture
def claims(gateway: GatewayClient, clock: SettableClock) -> Claims:
    return Claims(gateway, clock)


async def test_claims_with_another_cap_are_answered_while_a_claim_waits(claims: Claims) -> None:
    await claims.of_another_process(2, cap=2)
    patient = claims.ask(1, cap=2)
    await asyncio.sleep(0.05)

    assert await claims.outcomes(claims.ask(3, cap=1, is_patient=False)) == {FILLED}
    assert await claims.outcomes(claims.ask(1, cap=3, is_patient=False)) == {GRANTED}
    assert not patient[0].done()

    await claims.assert_exhausted(patient)


async def test_waiting_claims_of_two_caps_look_seldom_and_are_all_answered(claims: Claims) -> None:
    await claims.of_another_process(2, cap=2)
    patient = [*claims.ask(1, cap=2), *claims.ask(1, cap=1)]

    await claims.assert_looks_seldom()
    await claims.assert_exhausted(patient)


async def test_more_waiting_claims_than_one_update_takes_look_seldom_and_keep_nobody_waiting(claims: Claims) -> None:
    await claims.of_another_process(1, cap=1)
    patient = claims.ask(1_100, cap=1)
    await asyncio.sleep(0.3)

    await claims.assert_looks_seldom()
    assert await claims.outcomes(claims.ask(1, cap=1, is_patient=False)) == {FILLED}
    await claims.assert_exhausted(patient)
