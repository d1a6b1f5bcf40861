"""`python -m bench`: measure one page of products on the gateway and on its peers, on this machine."""

import os
import subprocess
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pymongo import MongoClient
from rich.console import Console

from bench import dataset, measure, mongo, report, servers
from bench.measure import Samples, Settings
from bench.peerlist import BIN, Peer, choose
from bench.processes import Cores, share_out
from bench.servers import Server

DATABASE = "bench"
RESULTS = Path(__file__).parent / "results" / "page.json"

console = Console()


def environment(uri: str) -> dict[str, str]:
    """Return the variables that tell every server where the data is."""
    return {"PORTICO_MONGODB_URI": uri, "PORTICO_DATABASE": DATABASE}


def load(uri: str, folder: Path) -> dict[str, Any]:
    """Fill the database. Return what the report says about the data."""
    files = dataset.make(folder)
    for kind, file in (("categories", files.categories), ("products", files.products)):
        subprocess.run(
            [BIN / "portico", "import", kind, file],
            env=os.environ | environment(uri),
            check=True,
            stdout=subprocess.DEVNULL,
        )
    with MongoClient[dict[str, Any]](uri) as client:
        count = client[DATABASE]["products"].count_documents({})
        return {"products": count, "origin": files.origin, "mongodb": client.server_info()["version"]}


def start(peers: list[Peer], cores: Cores, uri: str, logs: Path, stack: ExitStack) -> list[Server]:
    """Start all peers. They run until the stack is closed. Idle peers use almost no CPU time."""
    env = environment(uri)
    started = [stack.enter_context(servers.running(peer, cores.server, env, logs)) for peer in peers]
    if differences := servers.differing(started):
        raise RuntimeError("\n".join(differences))
    return started


def run(peers: list[Peer], settings: Settings) -> tuple[Samples, dict[str, Any]]:
    """Start everything, measure, stop everything.

    Each round starts the peers anew: the figures of one start differ from those of the next by up to a third, although
    the process executes the same instructions.
    """
    cores = share_out()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        page = load(uri, folder)
        taken = []
        with console.status("measuring") as status:
            for number in range(settings.rounds):
                with ExitStack() as servers:
                    started = start(peers, cores, uri, folder, servers)
                    page["bytes"] = len(started[0].body)
                    taken.append(measure.one_round(started, settings, cores.rest, status.update, number, fresh=True))
        return measure.merged(taken), page


def compare(names: str, settings: Settings) -> dict[str, Any]:
    """Return the figures of these peers. Skip those that this machine cannot run."""
    chosen = choose(names)
    skipped = {peer.name: reason for peer in chosen if (reason := peer.missing())}
    present = [peer for peer in chosen if peer.name not in skipped]
    samples, page = run(present, settings)
    return report.figures(present, samples, settings, page, skipped)


def main(
    rounds: Annotated[
        int, typer.Option(min=1, help="The number of measurements of each peer, each with a new process.")
    ] = 5,
    requests: Annotated[
        int, typer.Option(min=1, help="Requests in a run at 1 connection. Runs at 16 have twice as many.")
    ] = 2_000,
    peers: Annotated[str, typer.Option(help="Names, separated by commas. The floor is always included.")] = "",
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/page.json.")
    ] = None,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run one short round as a check, and do not store it.")
    ] = False,
) -> None:
    """Measure one page of products on the gateway and on its peers."""
    settings = Settings(1, 200, 50, 100) if quick else Settings(rounds, requests, 300, 1_000)
    target = json or (None if quick else RESULTS)
    report.publish(lambda: compare(peers, settings), target, partial(report.show, console))


if __name__ == "__main__":
    typer.run(main)
