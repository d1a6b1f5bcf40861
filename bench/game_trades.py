"""`python -m bench.game_trades`: measure trades between two of 10,000 owners, drawn evenly and by Zipf.

64 clients trade at once, in this process, by the functions that the mutations call. A trade is an offer and its
acceptance. The same exchange as one multi-document transaction by PyMongo is beside it: one bulk of four updates and
one insert. With Zipf's exponent 1.5, one owner takes part in more than half of all trades. Rounds of both draws take
turns. At the end, the sums of all items are verified.

MongoDB has a core of its own. The ratios say more than the rates, which depend on the machine.
"""

import asyncio
import itertools
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pymongo import AsyncMongoClient, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from rich.console import Console
from rich.table import Table

from bench import mongo, report
from bench.processes import Cores, share_out
from portico.resolvers.documents import Database, Document
from portico.resolvers.game.inventories import stack_checks, trade_edits
from portico.resolvers.game.inventories.stacks import STACKS, Place, Viewer, Wanted, stack_id
from portico.resolvers.game.inventories.trade_records import TRADES
from portico.resolvers.writes.marks import random_operation_id

RESULTS = Path(__file__).parent / "results" / "game_trades.json"
EXPONENT = 1.5
PLENTY = 1_000_000
ITEMS = ("sword", "coin")
Trader = Callable[[Database, str, str], Awaitable[None]]

console = Console()


@dataclass(frozen=True)
class Size:
    owners: int = 10_000
    clients: int = 64
    seconds: float = 6.0
    rounds: int = 5


QUICK = Size(owners=500, seconds=2.0, rounds=2)


def place(owner: str) -> Place:
    return Place(owner, "bag")


async def fill(db: Database, size: Size) -> None:
    """Give every owner plenty of both items, as grants do."""
    await db[STACKS.name].create_indexes(list(STACKS.indexes))
    await db[TRADES.name].create_indexes(list(TRADES.indexes))
    stacks = [_stack(f"owner {number}", item) for number in range(size.owners) for item in ITEMS]
    await db[STACKS.name].insert_many(stacks, ordered=False)


def _stack(owner: str, item: str) -> Document:
    return {
        "_id": stack_id(place(owner), "thing", item),
        "owner": owner,
        "inventory": "bag",
        "category": "thing",
        "item_id": item,
        "name": item.title(),
        "name_key": item,
        "description": None,
        "image": None,
        "quantity": PLENTY,
        "granted": PLENTY,
        "consumed": 0,
        "notes": [],
        "applied": [],
    }


async def settle(db: Database, one: str, other: str) -> None:
    """Trade by an offer and its acceptance."""
    made = await trade_edits.offer_trade(
        db,
        viewer=Viewer(one, is_game_master=False),
        source=place(one),
        to=place(other),
        offers=[Wanted("thing", "sword", 1)],
        wants=[Wanted("thing", "coin", 2)],
        **_operation(),
    )
    viewer = Viewer(other, is_game_master=False)
    await trade_edits.accept_trade(db, viewer=viewer, trade_id=made["_id"], **_operation())


def _operation() -> dict[str, Any]:
    return {"now": datetime.now(UTC).replace(tzinfo=None), "operation_id": random_operation_id()}


async def transact(db: Database, one: str, other: str) -> None:
    """Make the same exchange by one transaction."""

    def change(owner: str, item: str, amount: int) -> UpdateOne:
        key = {"_id": stack_id(place(owner), "thing", item), "quantity": {"$gte": max(-amount, 0)}}
        return UpdateOne(key, {"$inc": {"quantity": amount}})

    async def exchange(session: AsyncClientSession) -> None:
        changes = [
            change(one, "sword", -1),
            change(other, "coin", -2),
            change(other, "sword", 1),
            change(one, "coin", 2),
        ]
        done = await db[STACKS.name].bulk_write(changes, session=session)
        if done.matched_count != len(changes):
            raise RuntimeError("an owner had too little")
        await db[TRADES.name].insert_one({"from": one, "to": other, "kind": "DONE"}, session=session)

    async with db.client.start_session() as session:
        await session.with_transaction(exchange)


class Draw:
    """Draws two different owners."""

    def __init__(self, size: Size, *, exponent: float) -> None:
        self._rng = random.Random(1)
        self._owners = [f"owner {number}" for number in range(size.owners)]
        weights = [(number + 1) ** -exponent for number in range(size.owners)]
        self._sums = list(itertools.accumulate(weights))

    def pair(self) -> tuple[str, str]:
        while True:
            one, other = self._rng.choices(self._owners, cum_weights=self._sums, k=2)
            if one != other:
                return one, other


async def rate(db: Database, draw: Draw, trade: Trader, size: Size) -> float:
    """Return the trades a second of all clients, each of which starts its next trade after its last."""
    started = time.perf_counter()
    done = 0

    async def client() -> None:
        nonlocal done
        while time.perf_counter() < started + size.seconds:
            await trade(db, *draw.pair())
            done += 1

    await asyncio.gather(*(client() for _ in range(size.clients)))
    return done / (time.perf_counter() - started)


async def verify(db: Database, size: Size) -> None:
    """Raise RuntimeError unless every item is there once, and nothing is in flight."""
    wrong = [one async for one in stack_checks.find_unbalanced_items(db)]
    if wrong or await db[STACKS.name].find_one({"notes.at": {"$exists": True}}):
        raise RuntimeError(f"items were lost or doubled: {wrong}")
    sums = await (await db[STACKS.name].aggregate([{"$group": {"_id": None, "n": {"$sum": "$quantity"}}}])).to_list()
    if sums[0]["n"] != size.owners * PLENTY * len(ITEMS):
        raise RuntimeError(f"there are {sums[0]['n']:,} items")


async def measure(uri: str, size: Size) -> list[dict[str, Any]]:
    """Return a row for each way to trade, with the medians of the rounds."""
    rows = []
    ways: dict[str, Trader] = {"offerTrade and acceptTrade": settle, "one transaction": transact}
    draws = {"even": Draw(size, exponent=0.0), "zipf": Draw(size, exponent=EXPONENT)}
    async with AsyncMongoClient[Document](uri, w="majority", maxPoolSize=100) as client:
        for way, trade in ways.items():
            db = client["bench"]
            await client.drop_database("bench")
            await fill(db, size)
            await rate(db, draws["even"], trade, size)
            rates: dict[str, list[float]] = {name: [] for name in draws}
            for number in range(size.rounds):
                for name in sorted(draws, reverse=number % 2 == 1):
                    rates[name].append(await rate(db, draws[name], trade, size))
            await verify(db, size)
            ratio = statistics.median(zipf / even for zipf, even in zip(rates["zipf"], rates["even"], strict=True))
            medians = {name: round(statistics.median(found), 1) for name, found in rates.items()}
            rows.append({"case": way, **medians, "ratio": round(ratio, 3)})
    return rows


def show(result: dict[str, Any]) -> None:
    table = Table(title="Trades a second with 64 clients", title_justify="left")
    for heading in ("", "even", "Zipf 1.5", "ratio"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in result["tables"]["trades"]:
        table.add_row(row["case"], f"{row['even']:.0f}", f"{row['zipf']:.0f}", f"{row['ratio']:.2f}")
    console.print(table)


async def run(size: Size, cores: Cores) -> dict[str, Any]:
    with mongo.running(cores.rest) as uri:
        if cores.server is not None:
            os.sched_setaffinity(0, {cores.server})
        rows = await measure(uri, size)
    return report.measured(settings=asdict(size), tables={"trades": rows})


def main(
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/game_trades.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Trade little as a check, and do not store it.")] = False,
) -> None:
    """Measure trades between owners who are drawn evenly and by Zipf."""
    size = QUICK if quick else Size()
    report.publish(lambda: asyncio.run(run(size, share_out())), json or (None if quick else RESULTS), show)


if __name__ == "__main__":
    typer.run(main)
