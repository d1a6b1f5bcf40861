"""`python -m bench.reconnects`: measure how soon many subscribers that were cut off at once have what they missed.

The gateway runs in this process, which is set up as a worker is, without a network. All subscribers have got the same
last event of a discussion. While they are away, comments are posted. Then all come back at once with the id of their
last event.
"""

import asyncio
import os
import tempfile
import time
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from bench import mongo, report
from bench.processes import share_out
from portico.gateway.cli.server import tune_process
from portico.gateway.http.requests import Request
from portico.gateway.http.streaming import Session, responses
from portico.gateway.operations.execution import Progress
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.context import derived
from portico.testing.gateways import Gateway, running

_POST = "mutation ($input: PostCommentInput!) { postComment(input: $input) { __typename } }"
_OPEN = """mutation ($input: OpenDiscussionInput!) {
  openDiscussion(input: $input) { ... on DiscussionPayload { discussion { id } } } }"""
_PRODUCT = """mutation { createProduct(input: {sku: "s", type: "Other", title: "T", pricing: {list: {amount: 2},
  retail: {amount: 1}}}) { ... on ProductPayload { product { id } } } }"""
_POSTED = "subscription ($id: ID!) { commentPosted(discussionId: $id) { id text } }"
RESULTS = Path(__file__).parent / "results" / "reconnects.json"
console = Console()


async def come_back(gateway: Gateway, discussion: str, last_id: str, missed: int) -> None:
    """Subscribe again, and take what was missed."""
    session = Session(gateway.state, None, {})
    request = Request(_POSTED, {"id": discussion}, last_event_id=last_id)
    context = derived(await session.context(), live=session.resumable(request))
    async with aclosing(responses(gateway.state.executor, request, session, context, Progress())) as answers:
        for _ in range(missed):
            answer = await anext(answers)
            assert not answer.is_last, answer.json


async def discuss(gateway: Gateway) -> str:
    """Open a discussion. Return its id."""
    product = (await gateway.data(_PRODUCT, token=gateway.token("ann", [MERCHANT])))["createProduct"]["product"]["id"]
    opened = await gateway.data(_OPEN, {"input": {"subjectId": product}}, token=gateway.token("ann", [MERCHANT]))
    discussion: str = opened["openDiscussion"]["discussion"]["id"]
    return discussion


async def measured(settings: Settings, numbers: list[int], missed: int) -> list[dict[str, Any]]:
    """Return a row for each number of subscribers."""
    rows: list[dict[str, Any]] = []
    async with running(settings) as gateway:
        tune_process()
        discussion = await discuss(gateway)
        counts, writer = gateway.state.live.counts, gateway.token("ann", [])
        for number in numbers:
            session = Session(gateway.state, None, {})
            await session.check()
            request = Request(_POSTED, {"id": discussion})
            last_id = session.resumable(request).ids.id_of(await gateway.state.live.replays.now())
            for one in range(missed):
                await gateway.data(_POST, {"input": {"discussionId": discussion, "text": str(one)}}, token=writer)
            replays, runs, begun = counts.replays, counts.runs, time.perf_counter()
            await asyncio.gather(*(come_back(gateway, discussion, last_id, missed) for _ in range(number)))
            seconds = time.perf_counter() - begun
            row = {"subscribers": number, "seconds": round(seconds, 2)}
            rows.append({**row, "streams": counts.replays - replays, "runs": counts.runs - runs})
    return rows


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    title = f"until all have {result['missed']} missed events"
    table = Table("subscribers", title, "change streams", "runs of the selection")
    for row in result["rows"]:
        table.add_row(f"{row['subscribers']:,}", f"{row['seconds']:.2f} s", str(row["streams"]), str(row["runs"]))
    console.print(table)


def run(numbers: list[int], missed: int) -> dict[str, Any]:
    cores = share_out()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        if cores.server is not None:
            os.sched_setaffinity(0, {cores.server})
        settings = Settings(mongodb_uri=Secret(uri), data_dir=folder, jobs=False, log_level="error")
        rows = uvloop.run(measured(settings, numbers, missed))
    return report.measured(missed=missed, rows=rows)


def main(
    subscribers: Annotated[list[int] | None, typer.Option(help="How many subscribers. Repeat it.")] = None,
    missed: Annotated[int, typer.Option(min=1, help="How many events each has missed.")] = 10,
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/reconnects.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run a short check, and do not store it.")] = False,
) -> None:
    """Measure how soon subscribers that come back together have what they missed."""
    numbers = subscribers or ([20, 100] if quick else [100, 1_000, 5_000])
    target = json or (None if quick or subscribers else RESULTS)
    report.publish(lambda: run(numbers, missed), target, show)


if __name__ == "__main__":
    typer.run(main)
