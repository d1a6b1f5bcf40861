"""Two players with items and offers, and their trades."""

from __future__ import annotations

from portico.testing.stages import Case, Stage
from tests.game.support.stacks import assert_items, bag, give, goods, held, keyed, moved, offer, offered, used

Bags = tuple[dict[str, int], dict[str, int], dict[str, int]]
BEFORE: Bags = ({"sword": 3}, {}, {"coin": 10})
CASES = {
    "a move": Case(
        "transferStack", lambda _: moved("sword", 2), "StackPayload", ({"sword": 1}, {"sword": 2}, {"coin": 10})
    ),
    "an offer": Case(
        "offerTrade", lambda _: offered([goods("sword", 3)], [goods("coin", 1)]), "TradePayload", ({}, {}, {"coin": 10})
    ),
    "an offer of too much": Case("offerTrade", lambda _: offered([goods("sword", 4)]), "NotEnough", BEFORE),
    "an acceptance": Case(
        "acceptTrade",
        lambda stage: keyed(id=stage.trade),
        "TradePayload",
        ({"sword": 3, "coin": 6}, {}, {"coin": 4, "sword": 2}),
    ),
    "a cancellation": Case(
        "cancelTrade", lambda stage: keyed(id=stage.trade), "TradePayload", ({"sword": 5}, {}, {"coin": 10})
    ),
}


class Trades(Stage):
    """Mara has five swords and has offered two of them to Jonas, for six of his ten coins."""

    collections = ("game.stacks", "game.trades", "game.trade_pairs", "operations")
    job_names = ("finish-trades",)
    job_seconds = 6
    least = (2, 3)
    every_pause = True
    before = BEFORE
    cases = CASES

    async def build(self) -> None:
        await give(self.gateway.db, "mara", "sword", 5)
        await give(self.gateway.db, "jonas", "coin", 10)
        self.trade = await offer(self.gateway, "mara", "jonas", [goods("sword", 2)], [goods("coin", 6)])
        self.empty_offer = await offer(self.gateway, "jonas", "mara", [], [goods("sword", 1)])

    def token(self, mutation: str) -> str:
        return str(self.gateway.token("jonas" if mutation in {"acceptTrade", "consume"} else "mara", []))

    async def state(self) -> Bags:
        db = self.gateway.db
        return await held(db, "mara"), await held(db, "mara", "bank"), await held(db, "jonas")

    async def assert_settled(self) -> None:
        await assert_items(self.gateway)


class Consumptions(Trades):
    """A consumption, which changes one stack. So it has few commands."""

    least = (2, 2)
    cases = {  # noqa: RUF012 - no test changes it
        "a consumption": Case(
            "consume", lambda _: used("coin", 4, of=bag("jonas")), "StackPayload", ({"sword": 3}, {}, {"coin": 6})
        )
    }
