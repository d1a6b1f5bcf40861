"""`python -m bench.precision`: count how many of the runs that a change causes give another answer.

The documented queries are live. Those without a caller of their own are live for a member who sees less, too. Writes of
all domains follow each other, and after each one everything comes to rest. A run is in vain if its answer is the former
one. Nothing is timed, so the figures are about the same on a busy machine.
"""

import asyncio
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from bson import ObjectId
from graphql import FieldNode, OperationDefinitionNode, parse
from rich.console import Console
from rich.table import Table

from bench import mongo, report
from bench.daily_writes import DailyWrites
from bench.documented import Asked, as_asked, as_documented, documented_queries
from bench.processes import share_out
from portico.gateway.cli import data
from portico.gateway.live_queries import Compute, LiveListener, LiveQueries
from portico.gateway.operations.encoding import EncodedResponse
from portico.gateway.operations.responses import Response
from portico.gateway.reads.deriving import of_find
from portico.gateway.reads.interests import UPDATE, Change
from portico.gateway.reads.paths import TEXT_NAME
from portico.gateway.reads.read_sets import ReadSet
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.schema.context import Caller
from portico.testing.gateways import Gateway, running

RESULTS = Path(__file__).parent / "results" / "precision.json"
LESS = "mara"
# The coroutines that run a live query again, and that read a part of one again.
AT_WORK = {"_LiveQuery._run_while_stale", "Part._check"}
_LOOK_SECONDS = 0.005
# A collection whose changes are followed, although no query shows what it has.
_UNSHOWN = "analytics.hit_ids"
_MOST_CAUSES = 25
_LISTS = re.compile(r"\b(nodes|edges|totalCount|facets)\b")
console = Console()


@dataclass
class Runs:
    """Runs that changes have caused, and those of them whose answer was the former one, by their causes."""

    caused: int = 0
    in_vain: int = 0
    causes: Counter[str] = field(default_factory=Counter)

    def add(self, cause: Change, *, is_in_vain: bool) -> None:
        self.caused += 1
        self.in_vain += is_in_vain
        if is_in_vain:
            self.causes[described(cause)] += 1


def described(change: Change) -> str:
    """Return the collection, the kind and the paths of a change."""
    paths = f" of {', '.join(sorted(change.paths.named - {TEXT_NAME}))}" if change.kind == UPDATE else ""
    return f"{change.collection}: {change.kind}{paths}"


@dataclass
class _Last:
    reads: ReadSet
    answer: bytes


class ObservedQueries(LiveQueries):
    """Live queries that count, for each query, the runs that a change has caused."""

    runs: defaultdict[str, Runs]

    async def listen(
        self, request: Hashable, caller: Caller | None, compute: Compute, known: str | None = None
    ) -> LiveListener:
        """Do the same as every live query, and compare each answer with the one before."""
        assert isinstance(request, tuple)
        text, last = request[0], dict[str, _Last]()

        async def observed(caller: Caller | None, reads: ReadSet) -> Response:
            response = await compute(caller, reads)
            answer = EncodedResponse.of(response, is_state=True).json
            former = last.get(text)
            if former is not None and former.reads.cause is not None:
                self.runs[text].add(former.reads.cause, is_in_vain=answer == former.answer)
            last[text] = _Last(reads, answer)
            return response

        return await super().listen(request, caller, observed, known)


@asynccontextmanager
async def followed(gateway: Gateway, queries: Sequence[tuple[str, Asked, Gateway]]) -> AsyncIterator[ObservedQueries]:
    """Follow these texts of queries, each with its caller. No two of them are equal, so none share their runs."""
    given, settings = gateway.state.live_queries, gateway.settings
    observed = ObservedQueries(
        given.feed, given.counts, most=settings.max_live_queries, pause=settings.live_pause_ms / 1_000
    )
    observed.runs = defaultdict(Runs)
    gateway.state.live_queries = observed
    started: set[str] = set()

    async def follow(text: str, asked: Asked, caller: Gateway) -> None:
        async for _ in caller.answers(text, asked.variables):
            started.add(text)

    tasks = [asyncio.create_task(follow(*query)) for query in queries]
    try:
        while len(started) < len(tasks):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)
        yield observed
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def rest(gateway: Gateway) -> None:
    """Wait until all changes up to now have been looked at, and no query runs any more because of one of them."""
    await _pass_changes(gateway)
    while not await _is_at_rest(gateway.state.live_queries):  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(_LOOK_SECONDS)


async def _pass_changes(gateway: Gateway) -> None:
    """Make one more change, and wait until it has been looked at. That happens in the order of the changes."""
    key, passed = ObjectId(), asyncio.Event()
    reads = ReadSet(gateway.state.live_queries.feed.index, passed.set)
    reads.end(reads.begin(of_find(_UNSHOWN, {"_id": key}, None, {})), [])
    await gateway.db[_UNSHOWN].insert_one({"_id": key})
    await passed.wait()
    reads.release()


async def _is_at_rest(queries: LiveQueries) -> bool:
    """Return whether nothing is read again, and all answers are handed out."""
    if _is_at_work():
        return False
    handed_out = asyncio.Event()
    queries.steps.each(asyncio.Event.set, [handed_out])
    await handed_out.wait()
    # A client that takes an answer can let its query run again.
    return not _is_at_work()


def _is_at_work() -> bool:
    return any(getattr(task.get_coro(), "__qualname__", "") in AT_WORK for task in asyncio.all_tasks())


async def measured(gateway: Gateway, writes: int, seed: int) -> dict[str, Any]:
    """Make the writes to the demo. Return the figures."""
    gateway.commands.is_recording = False
    demo = await as_documented(gateway)
    queries = await documented_queries(demo)
    mix = await DailyWrites.on(demo, random.Random(seed))
    own = [(as_own(one), one, as_asked(demo, one)) for one in queries]
    less = [(as_less(one), one, demo.as_caller(LESS)) for one in queries if one.caller is None]
    answered: Counter[tuple[str, str]] = Counter()
    async with followed(gateway, [*own, *less]) as observed:
        await rest(gateway)
        observed.runs.clear()
        checked = observed.feed.counts.checks.made
        for _ in range(writes):
            answered[await mix.write()] += 1
            await rest(gateway)
        checks = observed.feed.counts.checks.made - checked
    return {**figures(queries, observed.runs, answered), "checks": checks}


def as_own(asked: Asked) -> str:
    """Return the text of a query, which no other one has."""
    return f"{asked.live}# at {asked.where}"


def as_less(asked: Asked) -> str:
    """Return the text of a query for the member who sees less."""
    return f"{as_own(asked)} for {LESS}"


def figures(queries: Sequence[Asked], runs: Mapping[str, Runs], answered: Counter[tuple[str, str]]) -> dict[str, Any]:
    """Return the figures of each query, and those of all."""
    rows = []
    for one in queries:
        found = [runs[text] for text in (as_own(one), as_less(one)) if text in runs]
        caused, in_vain = sum(part.caused for part in found), sum(part.in_vain for part in found)
        own = sum((part.causes for part in found), Counter[str]())
        row = {"query": shown(one), "page": one.where.partition(":")[0], "runs": caused, "in_vain": in_vain}
        rows.append({**row, "has_lists": bool(_LISTS.search(one.text)), "causes": dict(own.most_common(_MOST_CAUSES))})
    causes = sum((found.causes for found in runs.values()), Counter[str]())
    refused = Counter(
        {f"{kind}: {answer}": count for (kind, answer), count in answered.items() if not answer.endswith("Payload")}
    )
    return {
        "writes": answered.total(),
        "refused": dict(refused.most_common()),
        **totals(rows),
        "without_lists": totals([row for row in rows if not row["has_lists"]]),
        "queries": rows,
        "causes": dict(causes.most_common(_MOST_CAUSES)),
    }


def totals(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums of some queries, and which part of the runs gave another answer."""
    runs, in_vain = sum(row["runs"] for row in rows), sum(row["in_vain"] for row in rows)
    return {"runs": runs, "in_vain": in_vain, "precision": round(1 - in_vain / runs, 4) if runs else None}


def shown(asked: Asked) -> str:
    """Return the fields of a query, without their selections."""
    (query,) = [one for one in parse(asked.text).definitions if isinstance(one, OperationDefinitionNode)]
    fields = [one for one in query.selection_set.selections if isinstance(one, FieldNode)]
    return ", ".join(_path(one) for one in fields)


def _path(field: FieldNode) -> str:
    """Return the name of a field, with those below it that are alone."""
    below = field.selection_set.selections if field.selection_set else ()
    inner = [one for one in below if isinstance(one, FieldNode)]
    if len(inner) == 1 and inner[0].name.value not in ("nodes", "edges"):
        return f"{field.name.value}.{_path(inner[0])}"
    return field.name.value


async def run(settings: Settings, writes: int, seed: int) -> dict[str, Any]:
    await data.load_demo(settings, 1, Console(quiet=True))
    async with running(settings) as gateway:
        return await measured(gateway, writes, seed)


def main(
    writes: Annotated[int, typer.Option(min=1, help="How many writes.")] = 250,
    seed: Annotated[int, typer.Option(help="The seed of the writes.")] = 1,
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/precision.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Make few writes as a check, and do not store them.")] = False,
) -> None:
    """Count the runs of live queries that give another answer."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(share_out().rest))
        settings = Settings(mongodb_uri=Secret(uri), data_dir=folder, count_seconds=0.000_001, log_level="error")
        count = 40 if quick else writes

        def measure() -> dict[str, Any]:
            return report.measured(**asyncio.run(run(settings, count, seed)))

        report.publish(measure, json or (None if quick else RESULTS), show)


def show(found: dict[str, Any]) -> None:
    table = Table("query", "page", "runs", "in vain")
    for row in sorted(found["queries"], key=lambda row: -row["in_vain"]):
        table.add_row(row["query"], row["page"], f"{row['runs']:,}", f"{row['in_vain']:,}")
    console.print(table)
    for title in ("causes", "refused"):
        console.print(title, style="bold")
        for name, count in found[title].items():
            console.print(f"{count:6,} {name}", highlight=False, markup=False)
    console.print(f"{found['writes']:,} writes, {found['runs']:,} runs, {found['in_vain']:,} in vain")
    console.print(f"precision {found['precision']}, without lists {found['without_lists']['precision']}")
    console.print(f"{found['checks']:,} parts were read again")


if __name__ == "__main__":
    typer.run(main)
