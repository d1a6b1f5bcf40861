"""`python -m bench.analytics`: measure recorded events, hits and sessions a second, roll-ups, and reads of a year.

The operations run in this process and without HTTP, from the text to the bytes of the answer. The other way is that of
`bench.analytics_ways.ByHand`: `insert_many` and `bulk_write` of PyMongo, on collections with the same indexes. The ways
take turns. Entries are recorded one in a call, and 1,000 in a call; events at each durability, hits and sessions on a
majority. All have ids, so a repetition would change nothing. At the end, the entries in the database are counted.

A roll-up is measured with few and with many sessions stored: users get late sessions, each in another hour, and the job
rolls them up. Each session has five periods, from its hour to its year, and some sessions share the longer ones.

CPU is that of this process, with the driver. MongoDB has a core of its own. The ratios say more than the rates, which
depend on the machine.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench import in_process, report
from bench.analytics_ways import SITE, ByHand, Portico, Way, entry_of
from bench.buyers import Database as Watched
from bench.buyers import watching
from bench.load import percentile
from portico.gateway.clock import SystemClock
from portico.resolvers.analytics.periods import Granularity, start_of
from portico.resolvers.analytics.session_recording import session_of
from portico.resolvers.declarations import Job, Resources
from portico.resolvers.documents import Database
from portico.resolvers.served import Domains
from portico.schema.scalars import format_instant

RESULTS = Path(__file__).parent / "results" / "analytics.json"
DATABASE = "bench"
BATCH = 1_000
ROLL_UP = "roll-up-sessions"
LEVELS: tuple[Granularity, ...] = ("HOUR", "DAY", "WEEK", "MONTH", "YEAR")
CASES: tuple[tuple[str, str], ...] = (
    ("events", "NONE"),
    ("events", "ACKNOWLEDGED"),
    ("events", "MAJORITY"),
    ("hits", "MAJORITY"),
    ("sessions", "MAJORITY"),
)
# Users whose sessions are rolled up, and the sessions that each user has.
ROLLED, OF_USER = 10, 1_000
YEAR = datetime(2025, 1, 1)  # noqa: DTZ001 - stored times are naive UTC

console = Console(width=150)


@dataclass(frozen=True)
class Size:
    batches: tuple[int, ...] = (1, BATCH)
    clients: tuple[int, ...] = (1, 16)
    seconds: float = 1.5
    rounds: int = 2
    stored: tuple[int, ...] = (10_000, 1_000_000)
    late: int = 20
    reads: int = 50


QUICK = Size(clients=(4,), seconds=0.3, rounds=1, stored=(10_000,), late=5, reads=5)


@dataclass
class Sample:
    """What one way has done in all rounds of a case."""

    rates: list[float] = field(default_factory=list)  # entries a second
    latencies: list[float] = field(default_factory=list)  # of calls, in seconds
    cpu: float = 0.0  # in seconds
    commands: int = 0
    entries: int = 0

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.latencies)
        return {
            "rate": round(statistics.median(self.rates), 1),
            "p99_ms": round(percentile(ordered, 0.99) * 1_000, 2),
            "cpu_us": round(self.cpu * 1_000_000 / self.entries, 2),
            "commands": round(self.commands / len(ordered), 2),
        }


class Recording:
    """Both ways on one database."""

    def __init__(self, ways: list[Way], database: Watched, size: Size) -> None:
        self._ways = ways
        self._database = database
        self._size = size
        self._rng = random.Random(1)
        self._recorded: dict[tuple[str, str], int] = {}

    async def compare(self, kind: str, durability: str, batch: int, clients: int) -> dict[str, Any]:
        """Measure a case by both ways, which take turns. Return its row."""
        samples = {way.name: Sample() for way in self._ways}
        for number in range(self._size.rounds + 1):
            for way in self._ways if number % 2 else self._ways[::-1]:
                # The first round fills caches.
                sample = samples[way.name] if number else Sample()
                await self._run(way, kind, durability, batch, clients, sample)
        if kind != "hits":
            await self._empty(kind)
        figures = {way.name: samples[way.name].figures() for way in self._ways}
        own, other = figures["portico"], figures["by hand"]
        ratios = {name: round(own[name] / other[name], 3) for name in ("rate", "p99_ms", "cpu_us")}
        case = {"kind": kind, "durability": durability, "batch": batch, "clients": clients}
        return {**case, **figures, "ratio": ratios}

    async def _run(self, way: Way, kind: str, durability: str, batch: int, clients: int, sample: Sample) -> None:
        seconds, entries = self._size.seconds, 0
        latencies: list[float] = []
        # Making entries is no part of the cost.
        made = iter([[entry_of(kind, self._rng) for _ in range(batch)] for _ in range(self._calls(batch))])

        async def client() -> None:
            nonlocal entries
            while time.perf_counter() < began + seconds and (given := next(made, None)) is not None:
                at = time.perf_counter()
                await way.record(kind, given, durability)
                latencies.append(time.perf_counter() - at)
                entries += len(given)

        commands, cpu, began = self._database.commands(), time.process_time(), time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        took = time.perf_counter() - began
        sample.cpu += time.process_time() - cpu
        sample.commands += self._database.commands() - commands
        sample.rates.append(entries / took)
        sample.latencies += latencies
        sample.entries += entries
        self._recorded[way.name, kind] = self._recorded.get((way.name, kind), 0) + entries
        await self._verify(way, kind)

    def _calls(self, batch: int) -> int:
        """Return how many calls a round has at most, so that its entries fit in memory."""
        return int(self._size.seconds * (20_000 if batch == 1 else 60))

    async def _verify(self, way: Way, kind: str) -> None:
        """Wait for unacknowledged events. Raise RuntimeError unless each entry was recorded once."""
        expected = self._recorded[way.name, kind]
        for _ in range(600):
            found = await way.recorded(kind)
            if found == expected:
                return
            await asyncio.sleep(0.1)
        raise RuntimeError(f"{way.name}: {expected:,} {kind}, and {found:,} stored")

    async def _empty(self, kind: str) -> None:
        """Empty the collections of both ways, so that in the next case neither works in a larger one."""
        for way in self._ways:
            await way.empty(kind)
            self._recorded[way.name, kind] = 0


@dataclass
class RollUps:
    """The job on a number of sessions."""

    own: Portico
    db: Database
    domains: Domains
    resources: Resources
    database: Watched

    async def measure(self, stored: int, late: int) -> dict[str, Any]:
        """Return what rolling up costs when so many sessions are stored. Each user has 1,000 of them in a year."""
        for name in ("analytics.sessions", "analytics.session_roll_ups"):
            await self.db[name].delete_many({})
        rng = random.Random(2)
        for user in range(ROLLED):
            await self._record([(user, hour) for hour in rng.sample(range(365 * 24), OF_USER)], rng)
        first = await self._roll_up()
        for user in range(ROLLED, stored // OF_USER):
            await self._store(user, rng)
        dirty = [(user, hour) for user in range(ROLLED) for hour in rng.sample(range(365 * 24), late)]
        await self._record(dirty, rng)
        took = await self._roll_up()
        sessions, periods = ROLLED * OF_USER, len(_periods(dirty))
        return {
            "stored": stored,
            "sessions_a_second": round(sessions / first["seconds"], 1),
            "late": len(dirty),
            "periods": periods,
            "ms_a_period": round(took["seconds"] * 1_000 / periods, 3),
            "cpu_ms_a_period": round(took["cpu"] * 1_000 / periods, 3),
            "commands": took["commands"],
        }

    async def _record(self, sessions: list[tuple[int, int]], rng: random.Random) -> None:
        for start in range(0, len(sessions), BATCH):
            entries = [
                {
                    "userId": f"user {user}",
                    "at": format_instant(YEAR + timedelta(hours=hour, seconds=rng.randrange(3_600))),
                    "length": rng.randrange(3_600),
                }
                for user, hour in sessions[start : start + BATCH]
            ]
            await self.own.record("sessions", entries, "MAJORITY")

    async def _store(self, user: int, rng: random.Random) -> None:
        """Store the sessions of a user as if they were rolled up. Their roll-ups are left out: nobody reads them."""
        sessions = [
            session_of(
                event_id=None,
                user_id=f"user {user}",
                at=YEAR + timedelta(hours=hour),
                length=float(rng.randrange(3_600)),
            )
            for hour in rng.sample(range(365 * 24), OF_USER)
        ]
        await self.db["analytics.sessions"].insert_many(sessions, ordered=False)

    async def _roll_up(self) -> dict[str, Any]:
        (job,) = (job for job in self.domains.jobs if job.name == ROLL_UP)
        commands, cpu, began = self.database.commands(), time.process_time(), time.perf_counter()
        while await job.run(Job.Run(self.db, SystemClock().now(), self.resources)):
            pass
        return {
            "seconds": time.perf_counter() - began,
            "cpu": time.process_time() - cpu,
            "commands": self.database.commands() - commands,
        }


def _periods(sessions: list[tuple[int, int]]) -> set[tuple[int, str, datetime]]:
    """Return the periods of sessions, which are given by user and hour of the year."""
    return {(user, level, start_of(level, YEAR + timedelta(hours=hour))) for user, hour in sessions for level in LEVELS}


_HITS = f"""
query ($from: DateTime!, $to: DateTime!) {{
  hits(site: "{SITE}", page: "/year", granularity: DAY, from: $from, to: $to) {{ points {{ at hits }} }}
}}
"""
_SESSIONS = """
query ($from: DateTime!, $to: DateTime!) {
  sessionStats(userId: "user 0", granularity: DAY, from: $from, to: $to) { asOf stats { start sessions total mean } }
}
"""


async def read_a_year(own: Portico, database: Watched, reads: int) -> list[dict[str, Any]]:
    """Return what reading the days of a year costs: of the hits of a page, and of the sessions of a user."""
    days = [format_instant(YEAR + timedelta(days=day, hours=day % 24)) for day in range(365)]
    await own.record("hits", [{"site": SITE, "page": "/year", "at": day} for day in days], "MAJORITY")
    given = {"from": format_instant(YEAR), "to": format_instant(YEAR + timedelta(days=365))}
    rows = []
    for name, text, items in (("hits", _HITS, "points"), ("sessionStats", _SESSIONS, "stats")):
        found = (await own.ask(text, given))[name][items]
        latencies: list[float] = []
        commands, cpu = database.commands(), time.process_time()
        for _ in range(reads):
            began = time.perf_counter()
            await own.ask(text, given)
            latencies.append(time.perf_counter() - began)
        rows.append(
            {
                "read": name,
                "days": len(found),
                "p50_ms": round(statistics.median(latencies) * 1_000, 2),
                "cpu_ms": round((time.process_time() - cpu) * 1_000 / reads, 2),
                "commands": (database.commands() - commands) / reads,
            }
        )
    return rows


async def measure(
    recording: Recording, roll_ups: RollUps, size: Size, say: Callable[[str], None]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables."""
    recorded = []
    for kind, durability in CASES:
        for batch in size.batches:
            for clients in size.clients:
                recorded.append(await recording.compare(kind, durability, batch, clients))
                say(f"{kind}, {durability}, {batch:,} in a call, {clients} clients: {recorded[-1]['ratio']}")
    rolled = []
    for stored in size.stored:
        say(f"rolling up with {stored:,} sessions stored")
        rolled.append(await roll_ups.measure(stored, size.late))
    read = await read_a_year(roll_ups.own, roll_ups.database, size.reads)
    return {"recorded": recorded, "rolled up": rolled, "read": read}


async def run(size: Size, uri: str, folder: Path) -> dict[str, Any]:
    async with in_process.opened("analytics", uri, folder, DATABASE) as opened:
        own = Portico(opened.db, opened.executor, opened.served, opened.specs)
        hand = ByHand(opened.by_hand, opened.specs)
        await hand.prepare()
        with watching(uri) as database, console.status("measuring") as status:
            roll_ups = RollUps(own, opened.db, opened.domains, opened.resources, database)
            tables = await measure(Recording([own, hand], database, size), roll_ups, size, status.update)
            version = database.version()
    return report.measured(mongodb=version, settings=asdict(size), tables=tables)


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    table = Table("recorded", "durability", "in a call", "clients", title="Portico | by hand | ratio")
    for name in ("entries a second", "p99 ms of a call", "CPU µs of an entry", "commands of a call"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result["tables"]["recorded"]:
        cells = report.beside(row, ("rate", "p99_ms", "cpu_us", "commands"))
        table.add_row(row["kind"], row["durability"], f"{row['batch']:,}", f"{row['clients']}", *cells)
    console.print(table)
    for name in ("rolled up", "read"):
        rows = result["tables"][name]
        plain = Table(*rows[0], title=name)
        for row in rows:
            plain.add_row(*(f"{value:,}" if isinstance(value, int | float) else value for value in row.values()))
        console.print(plain)


def main(
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/analytics.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run a short check, and do not store it.")] = False,
) -> None:
    """Measure recording, roll-ups and reads."""
    size = QUICK if quick else Size()
    report.publish(lambda: in_process.run(partial(run, size)), json or (None if quick else RESULTS), show)


if __name__ == "__main__":
    typer.run(main)
