"""Advertisers who place ads and deactivate campaigns at random while gateways are killed."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from portico.resolvers.documents import Database
from portico.schema.ads.advertisers import ADVERTISER
from tests.ads.support.ads import ad, placement
from tests.support.harness import MUTATIONS, GatewayClient, new_key
from tests.support.kills import Client, Clients, turns

ZONES = [f"zone-{number}" for number in range(6)]
UNITS = ("banner", "video")
_numbers = itertools.count(1)


@dataclass
class Board:
    """What all advertisers were told: the price of each ad by zone, campaign and ad unit."""

    prices: dict[tuple[str, str, str], int] = field(default_factory=dict)
    operations: Counter[str] = field(default_factory=Counter)


class Advertiser:
    """Runs one campaign after the other, one call after the other."""

    def __init__(self, client: Client, board: Board, name: str, token: str, rng: random.Random) -> None:
        self._client = client
        self._board = board
        self._name = name
        self._token = token
        self._rng = rng
        self._campaign = f"{name}:0"

    async def run(self, seconds: float) -> None:
        for _ in turns(seconds, self._board.operations):
            await (self.deactivate() if self._rng.random() < 0.1 else self.place())

    async def place(self) -> None:
        zone, unit, price = self._rng.choice(ZONES), self._rng.choice(UNITS), self._rng.randrange(1_000)
        result = await self._call("placeAd", placement(ad(self._campaign, unit, price), zone))
        assert result["__typename"] == "AdZonePayload", result
        self._board.prices[zone, self._campaign, unit] = price

    async def deactivate(self) -> None:
        own = [place for place in self._board.prices if place[1] == self._campaign]
        if not own:
            return
        result = await self._call("deactivateCampaign", {"campaignId": self._campaign})
        assert result["zones"] == len({zone for zone, _, _ in own}), result
        for place in own:
            del self._board.prices[place]
        self._campaign = f"{self._name}:{next(_numbers)}"

    async def _call(self, mutation: str, given: dict[str, Any]) -> Any:
        variables = {"input": {**given, "idempotencyKey": new_key()}}
        answered = await self._client.ask(MUTATIONS[mutation], variables, token=self._token)
        self._board.operations[mutation] += 1
        return answered[mutation]


async def assert_board_is_as_told(db: Database, board: Board) -> None:
    """Asserts that the zones have the ads that were placed last, without those of deactivated campaigns."""
    found = {
        (zone["zone_id"], one["campaign_id"], one["ad_unit_id"]): one["ecpm"]
        async for zone in db["ads.zones"].find({})
        for one in zone["ads"]
        if "pending" not in one
    }
    assert found == board.prices


class Ads:
    """Advertisers, each with campaigns of its own."""

    def __init__(self, advertisers: int) -> None:
        self._board = Board()
        self.operations = self._board.operations
        self._advertisers = advertisers
        self._token = ""

    async def prepare(self, gateway: GatewayClient) -> None:
        self._token = gateway.token("advertiser", [ADVERTISER])

    def actors(self, clients: Clients) -> list[Advertiser]:
        return [
            Advertiser(clients.connect(), self._board, f"advertiser-{number}", self._token, random.Random(number))
            for number in range(self._advertisers)
        ]

    async def check(self, gateway: GatewayClient) -> None:
        await assert_board_is_as_told(gateway.db, self._board)
