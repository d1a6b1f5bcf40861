"""Owners of inventories who grant, consume, transfer and trade at random while gateways are killed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from portico.resolvers.documents import Database
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.kinds import Kind
from portico.testing.kits import mutation_text
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, new_key
from tests.support.kills import Client, Clients, turns

GOODS = ("gem", "ore", "herb")
CATEGORY = "goods"
FIRST_GRANT = 1_000
_TRADE = "... on TradePayload { trade { id state } } ... on NotEnough { available }"
MUTATIONS = {
    name: mutation_text(SCHEMA._schema, name, selection)
    for name, selection in {
        **dict.fromkeys(("grant", "consume", "transferStack"), "... on StackPayload { stack { quantity } }"),
        **dict.fromkeys(("offerTrade", "acceptTrade", "cancelTrade"), _TRADE),
    }.items()
}


@dataclass
class Market:
    """What all traders were told of. `ended` has the trades that somebody was told to be accepted or cancelled."""

    owners: Sequence[str]
    granted: Counter[str] = field(default_factory=Counter)
    consumed: Counter[str] = field(default_factory=Counter)
    open: list[tuple[str, str, str]] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    operations: Counter[str] = field(default_factory=Counter)


@dataclass
class Trader:
    """Acts for some of the owners, one call after the other."""

    client: Client
    market: Market
    own: Sequence[str]
    tokens: dict[str, str]
    rng: random.Random

    async def run(self, seconds: float) -> None:
        for owner in self.own:
            for item in GOODS:
                await self.grant(owner, item, FIRST_GRANT)
        acts: list[Callable[[str], Awaitable[None]]] = [
            self.grant_some,
            self.consume,
            self.transfer,
            self.offer,
            self.offer,
            self.end,
            self.end,
        ]
        for _ in turns(seconds, self.market.operations):
            await self.rng.choice(acts)(self.rng.choice(self.own))

    async def call(self, caller: str, mutation: str, given: dict[str, Any]) -> Any:
        variables = {"input": {**given, "idempotencyKey": new_key()}}
        result = (await self.client.ask(MUTATIONS[mutation], variables, token=self.tokens[caller]))[mutation]
        assert result["__typename"] in {"StackPayload", "TradePayload", "NotEnough", "Conflict", "LimitReached"}, result
        self.market.operations[mutation if "Payload" in result["__typename"] else f"{mutation} refused"] += 1
        return result

    async def grant_some(self, owner: str) -> None:
        await self.grant(owner, self.rng.choice(GOODS), self.rng.randint(1, 9))

    async def grant(self, owner: str, item: str, quantity: int) -> None:
        given = {"to": {"owner": owner}, "category": CATEGORY, "itemId": item, "name": item, "quantity": quantity}
        await self.call("master", "grant", given)
        self.market.granted[item] += quantity

    async def consume(self, owner: str) -> None:
        stack = self._stack()
        if (await self.call(owner, "consume", {"from": {"owner": owner}, "stack": stack}))["__typename"] != "NotEnough":
            self.market.consumed[stack["itemId"]] += stack["quantity"]

    async def transfer(self, owner: str) -> None:
        bag, bank = {"owner": owner, "name": "bag"}, {"owner": owner, "name": "bank"}
        source, target = self.rng.sample([bag, bank], 2)
        await self.call(owner, "transferStack", {"from": source, "to": target, "stack": self._stack()})

    async def offer(self, owner: str) -> None:
        other = self.rng.choice([one for one in self.market.owners if one != owner])
        mine, theirs = self.rng.sample(GOODS, 2)
        given = {
            "from": {"owner": owner},
            "to": {"owner": other},
            "offers": [{**self._stack(), "itemId": mine}],
            "wants": [{**self._stack(), "itemId": theirs}],
        }
        result = await self.call(owner, "offerTrade", given)
        if result["__typename"] == "TradePayload":
            self.market.open.append((result["trade"]["id"], owner, other))

    async def end(self, _owner: str) -> None:
        """Accepts or cancels an open trade, which another trader may do at the same moment."""
        if not self.market.open:
            return
        trade, offering, asked = self.rng.choice(self.market.open[-8:])
        accepts = self.rng.random() < 0.6
        caller = asked if accepts else self.rng.choice([offering, asked])
        result = await self.call(caller, "acceptTrade" if accepts else "cancelTrade", {"id": trade})
        if result["__typename"] == "TradePayload":
            ended = "SETTLED" if accepts else "CANCELLED"
            assert self.market.ended.setdefault(trade, ended) == ended
            if any(trade == one[0] for one in self.market.open):
                self.market.open = [one for one in self.market.open if one[0] != trade]

    def _stack(self) -> dict[str, Any]:
        return {"category": CATEGORY, "itemId": self.rng.choice(GOODS), "quantity": self.rng.randint(1, 20)}


async def assert_market_is_as_told(db: Database, market: Market) -> None:
    """Checks the stacks and the trades. All jobs must have run."""
    found: Counter[str] = Counter()
    async for stack in db["game.stacks"].find({}):
        assert stack["notes"] == []
        found[stack["item_id"]] += stack["quantity"]
    states = {}
    async for trade in db["game.trades"].find({"kind": "TRADE"}):
        states[Kind.encode_id("Trade", trade["_id"])] = trade["state"]
        if trade["state"] == "OFFERED":
            found.update({line["item_id"]: line["quantity"] for line in trade["offers"]})
    assert found == market.granted - market.consumed
    assert {trade: states[trade] for trade in market.ended} == market.ended
    assert {state for trade, state in states.items() if trade not in market.ended} <= {"OFFERED"}


class Trades:
    """Traders, each of whom acts for two owners of inventories."""

    def __init__(self, traders: int) -> None:
        self._market = Market([f"trader-{number}" for number in range(2 * traders)])
        self.operations = self._market.operations
        self._traders = traders
        self._tokens: dict[str, str] = {}

    async def prepare(self, gateway: GatewayClient) -> None:
        self._tokens = {owner: gateway.token(owner, []) for owner in self._market.owners}
        self._tokens["master"] = gateway.token("master", [GAME_MASTER])

    def actors(self, clients: Clients) -> list[Trader]:
        return [
            Trader(
                clients.connect(),
                self._market,
                self._market.owners[number :: self._traders],
                self._tokens,
                random.Random(number),
            )
            for number in range(self._traders)
        ]

    async def check(self, gateway: GatewayClient) -> None:
        await assert_market_is_as_told(gateway.db, self._market)
