"""`python -m bench.ads`: measure choices and served ads a second, beside the same by hand with PyMongo.

The operations run in this process and without HTTP, from the text to the bytes of the answer. The other way is that of
`bench.ad_ways.ByHand`, which has neither GraphQL nor a protocol against crashes. Both ways take turns, and each has
collections of its own. A zone has 1, 100 or 1,000 ads, which the page's keywords suit more or less. CPU is that of this
process for one operation, with the driver.

"one capped ad" and "100 capped ads" show what the counter of a hot ad costs: all ads have the same price and a total
cap, so one counter gets all impressions, or each of 100 gets a hundredth. At the end, the counted impressions are
compared with the served ones, and a cap that is reached with as many impressions as it allows.

MongoDB has a core of its own. The ratios say more than the rates, which depend on the machine.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench import in_process, report
from bench.ad_ways import ByHand, Portico, Way
from bench.buyers import Database as Watched
from bench.buyers import watching
from bench.load import percentile
from portico.resolvers.documents import Document

RESULTS = Path(__file__).parent / "results" / "ads.json"
DATABASE = "bench"
USERS = 1_000
PLENTY = 1_000_000
# The cap that the last run reaches, and the calls that try to.
CAP, CALLS = 500, 800

console = Console(width=140)


@dataclass(frozen=True)
class Size:
    ads: tuple[int, ...] = (1, 100, 1_000)
    clients: tuple[int, ...] = (1, 64)
    seconds: float = 3.0
    rounds: int = 3


QUICK = Size(ads=(1, 1_000), seconds=0.3, rounds=1)


@dataclass
class Sample:
    """What one way has done in all rounds of a case."""

    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)  # in seconds
    cpu: float = 0.0  # in seconds
    commands: int = 0
    served: int = 0

    def figures(self) -> dict[str, float]:
        ordered, number = sorted(self.latencies), len(self.latencies)
        return {
            "rate": round(statistics.median(self.rates), 1),
            "p50_ms": round(percentile(ordered, 0.5) * 1_000, 2),
            "p99_ms": round(percentile(ordered, 0.99) * 1_000, 2),
            "cpu_ms": round(self.cpu * 1_000 / number, 3),
            "commands": round(self.commands / number, 2),
        }


def ads_of(zone: str, number: int, *, is_capped: bool = False, total_cap: int = PLENTY) -> list[Document]:
    """Return the ads of a zone, dearest first. Capped ones have the same price and total caps, and no keywords."""
    return [
        {
            "campaign_id": f"{zone}:{at:04}",
            "ad_unit_id": "banner",
            "ecpm": 100 if is_capped else 100 + (number - at) // 4,
            "keywords": [] if is_capped else [f"word {at % 90 + more}" for more in range(5)],
            "daily_cap": PLENTY,
            "total_cap": total_cap if is_capped else None,
        }
        for at in range(number)
    ]


class Bench:
    """Both ways on one database."""

    def __init__(self, ways: list[Way], database: Watched, size: Size) -> None:
        self._ways = ways
        self._database = database
        self._size = size
        self._users = itertools.cycle(f"user {number}" for number in range(USERS))
        self._placed: dict[str, list[Document]] = {}
        self._served: dict[tuple[str, str], int] = {}

    async def place(self, zone: str, ads: list[Document]) -> None:
        self._placed[zone] = ads
        for way in self._ways:
            await way.place(zone, ads)
            self._served[way.name, zone] = 0

    async def compare(self, case: str, zone: str, clients: int, *, serves: bool) -> dict[str, Any]:
        """Measure a case by both ways, which take turns. Return its row."""
        samples = {way.name: Sample() for way in self._ways}
        for number in range(self._size.rounds + 1):
            for way in self._ways if number % 2 else self._ways[::-1]:
                # The first round fills caches and profiles.
                sample = samples[way.name] if number else Sample()
                await self._run(way, zone, clients, sample, serves=serves)
        figures = {way.name: samples[way.name].figures() for way in self._ways}
        own, other = figures["portico"], figures["by hand"]
        ratios = {name: round(own[name] / other[name], 3) for name in ("rate", "p99_ms", "cpu_ms")}
        return {"case": case, "ads": len(self._placed[zone]), "clients": clients, **figures, "ratio": ratios}

    async def _run(self, way: Way, zone: str, clients: int, sample: Sample, *, serves: bool) -> None:
        seconds = self._size.seconds
        latencies: list[float] = []
        served = 0

        async def client() -> None:
            nonlocal served
            while time.perf_counter() < began + seconds:
                at = time.perf_counter()
                number = await (way.serve if serves else way.choose)(zone, next(self._users))
                latencies.append(time.perf_counter() - at)
                served += number

        commands, cpu, began = self._database.commands(), time.process_time(), time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        took = time.perf_counter() - began
        # What the gateway does after its answers is part of the cost.
        await way.counted(self._placed[zone])
        sample.cpu += time.process_time() - cpu
        sample.commands += self._database.commands() - commands
        sample.rates.append(len(latencies) / took)
        sample.latencies += latencies
        if serves:
            self._served[way.name, zone] += served

    async def reach_a_cap(self) -> dict[str, int]:
        """Serve an ad with a total cap more often than it allows, by all clients at once. Return what was served."""
        zone, found = "reached", {}
        await self.place(zone, ads_of(zone, 1, is_capped=True, total_cap=CAP))
        for way in self._ways:
            calls = [way.serve(zone, next(self._users)) for _ in range(CALLS)]
            found[way.name] = self._served[way.name, zone] = sum(await asyncio.gather(*calls))
        return found

    async def verify(self) -> None:
        """Raise RuntimeError unless each served impression was counted once, and no cap was exceeded."""
        for way in self._ways:
            for zone, ads in self._placed.items():
                served = self._served[way.name, zone]
                if ads[0]["total_cap"] is not None:
                    counted = await way.counted(ads)
                    if sum(counted) != served or max(counted) > ads[0]["total_cap"]:
                        raise RuntimeError(f"{way.name}, {zone}: {served:,} served, and counted {counted}")
            served = sum(number for (name, _), number in self._served.items() if name == way.name)
            seen = await way.seen()
            if seen != served:
                raise RuntimeError(f"{way.name}: {served:,} served, and users have seen {seen:,}")


async def measure(bench: Bench, size: Size, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return a row for each case."""
    rows = []
    for number in size.ads:
        zone = f"zone-{number}"
        await bench.place(zone, ads_of(zone, number))
        for serves, clients in itertools.product((True, False), size.clients):
            case = "serveAds" if serves else "chooseAds"
            rows.append(await bench.compare(case, zone, clients, serves=serves))
            say(f"{case}, {number:,} ads, {clients} clients: {rows[-1]['ratio']}")
    for number, case in ((1, "one capped ad"), (100, "100 capped ads")):
        zone = f"capped-{number}"
        await bench.place(zone, ads_of(zone, number, is_capped=True))
        rows += [await bench.compare(case, zone, clients, serves=True) for clients in size.clients]
    return sorted(rows, key=lambda row: row["case"])


async def run(size: Size, uri: str, folder: Path) -> dict[str, Any]:
    async with in_process.opened("ads", uri, folder, DATABASE) as opened:
        ways: list[Way] = [Portico(opened.db, opened.executor, opened.served), ByHand(opened.by_hand)]
        with watching(uri) as database, console.status("measuring") as status:
            bench = Bench(ways, database, size)
            rows = await measure(bench, size, status.update)
            reached = await bench.reach_a_cap()
            await bench.verify()
            version = database.version()
    return report.measured(
        mongodb=version,
        settings=asdict(size),
        tables={"ads": rows},
        served_of_a_cap={"cap": CAP, "calls": CALLS, **reached},
    )


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    table = Table("case", "ads", "clients", title="Portico | by hand | ratio", title_justify="left")
    for name in ("a second", "p99 ms", "CPU ms", "commands"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result["tables"]["ads"]:
        cells = report.beside(row, ("rate", "p99_ms", "cpu_ms", "commands"))
        table.add_row(row["case"], f"{row['ads']:,}", f"{row['clients']}", *cells)
    console.print(table)
    console.print(f"A cap of {CAP} after {CALLS} calls: {result['served_of_a_cap']}", highlight=False)


def main(
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/ads.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run a short check, and do not store it.")] = False,
) -> None:
    """Measure choices and served ads."""
    size = QUICK if quick else Size()
    report.publish(lambda: in_process.run(partial(run, size)), json or (None if quick else RESULTS), show)


if __name__ == "__main__":
    typer.run(main)
