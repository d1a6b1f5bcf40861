"""`python -m bench.game`: measure moves, pick-ups and purchases a second, in one room and in many.

One gateway has a core of its own. MongoDB and the players share the other core. In "one room", all players are in one
room, and moves go back and forth between two. In "many rooms", each player has rooms of their own. A last table shows
what a move costs as the room fills up to its bound. The invariants of `portico doctor` are checked at the end.
"""

import asyncio
import os
import subprocess
import tempfile
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from bson import ObjectId
from pymongo import AsyncMongoClient
from rich.console import Console

from bench import mongo, report
from bench.adventurers import DATABASE, Player, World
from bench.buyers import SECONDS_TO_ANSWER, SECRET, Database, Operation, Sample, crowd, watching
from bench.connections import Connections
from bench.peerlist import BIN
from bench.processes import Cores, cpu_seconds, share_out
from bench.shop import serving
from portico.gateway.domains import load
from portico.resolvers.documents import Document
from portico.resolvers.game.world.locations import MAX_CHARACTERS
from portico.resolvers.indexes import create_indexes

RESULTS = Path(__file__).parent / "results" / "game.json"
# What a player does: the mutation and its input, one after the other.
Actions = list[tuple[str, dict[str, Any]]]

console = Console(width=150)


@dataclass(frozen=True)
class Size:
    """The size of the measurements. `operations` is the number of actions of each player."""

    clients: tuple[int, ...]
    operations: int
    others: tuple[int, ...]
    moves: int


FULL = Size(clients=(1, 16, 64), operations=10, others=(0, 49, 99, MAX_CHARACTERS - 1), moves=100)
QUICK = Size(clients=(1, 64), operations=2, others=(0, MAX_CHARACTERS - 1), moves=10)


def environment(uri: str, folder: Path) -> dict[str, str]:
    return {
        "PORTICO_MONGODB_URI": uri,
        "PORTICO_DATABASE": DATABASE,
        "PORTICO_JWT_SECRET": SECRET,
        "PORTICO_DATA_DIR": str(folder),
        "PORTICO_LOG_LEVEL": "error",
        # The jobs have nothing to do here, and their commands would be counted as the players'.
        "PORTICO_JOB_SECONDS": "86400",
    }


class Bench:
    """A running gateway with a world."""

    def __init__(self, http: Connections, world: World, database: Database, pids: tuple[int, int]) -> None:
        self._http = http
        self._world = world
        self._database = database
        self._pids = pids
        self._number = 0

    async def act(self, action: str, clients: int, operations: int, *, is_hot: bool) -> Sample:
        """Time players who act concurrently, each one action after the other."""
        prepare = {"moves": self._moves, "pick-ups": self._pick_ups, "purchases": self._purchases}[action]
        work: list[list[Operation]] = []
        share = clients if is_hot else 1
        for room_id in [self._world.pair() for _ in range(clients // share)]:
            prepared = prepare(room_id, share, operations)
            for (owner, character), actions in zip(self._enter(room_id, share), prepared, strict=True):
                player = Player(self._http, owner, character)
                work.append([(player, mutation, given) for mutation, given in actions])
        return await crowd(self._database, work)

    def _enter(self, room_id: ObjectId, count: int) -> list[tuple[str, ObjectId]]:
        self._number += 1
        return self._world.enter(room_id, count, f"player-{self._number}")

    def _moves(self, _room: ObjectId, share: int, operations: int) -> list[Actions]:
        return [[("move", {"direction": "NS"[at % 2]}) for at in range(operations)] for _ in range(share)]

    def _pick_ups(self, room_id: ObjectId, share: int, operations: int) -> list[Actions]:
        """Each player picks up one item and drops it again."""
        found = self._world.lay(room_id, share)
        return [[(("pickUp", "drop")[at % 2], {"itemId": one}) for at in range(operations)] for one in found]

    def _purchases(self, room_id: ObjectId, share: int, operations: int) -> list[Actions]:
        wares = self._world.stock(room_id, share * operations)
        return [[("buy", ware) for ware in wares[at::share]] for at in range(share)]

    async def fill(self, others: int, moves: int) -> dict[str, Any]:
        """Measure a move from an empty room into one with so many others, or back."""
        empty = self._world.pair()
        [(owner, character)] = self._enter(empty, 1)
        full = self._world.beyond(empty)
        self._enter(full, others)
        player = Player(self._http, owner, character)
        await crowd(self._database, [[(player, "move", {"direction": "NS"[at % 2]}) for at in range(4)]])
        before = [cpu_seconds(pid) for pid in self._pids]
        sample = await crowd(self._database, [[(player, "move", {"direction": "NS"[at % 2]}) for at in range(moves)]])
        used = [(cpu_seconds(pid) - was) * 1000 / moves for pid, was in zip(self._pids, before, strict=True)]
        return {
            "others": others,
            "p50_ms": round(sample.p50_ms, 1),
            "commands": sample.commands,
            "gateway_cpu_ms": round(used[0], 2),
            "mongod_cpu_ms": round(used[1], 2),
            "refused": sample.refused,
        }


async def measure(bench: Bench, size: Size, say: Any) -> dict[str, list[dict[str, Any]]]:
    """Return every table, by its title."""
    tables: dict[str, list[dict[str, Any]]] = {}
    # The first requests of a gateway fill its caches.
    await bench.act("moves", 1, 10, is_hot=True)
    for action in ("moves", "pick-ups", "purchases"):
        for clients in size.clients:
            for label, is_hot in (("one room", True), ("many rooms", False)):
                sample = await bench.act(action, clients, size.operations, is_hot=is_hot)
                tables.setdefault(action.capitalize(), []).append({"case": label, **rounded(sample)})
                say(f"{action}, {label}, {clients} clients: {sample.rate:.0f} a second")
    tables["A move into or out of a room with others"] = [
        await bench.fill(others, size.moves) for others in size.others
    ]
    return tables


def rounded(sample: Sample) -> dict[str, Any]:
    return {name: round(value, 1) for name, value in asdict(sample).items()}


async def create_collections(uri: str) -> None:
    async with AsyncMongoClient[Document](uri) as client:
        async for _ in create_indexes(client[DATABASE], load().collections):
            pass


async def run(size: Size, cores: Cores) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        await create_collections(uri)
        env = environment(uri, folder)
        port, pid = stack.enter_context(serving(cores.server, env))
        database = stack.enter_context(watching(uri))
        world = stack.enter_context(closing(World(uri)))
        status = stack.enter_context(console.status("preparing"))
        http = stack.enter_context(closing(Connections(port, SECONDS_TO_ANSWER)))
        bench = Bench(http, world, database, (pid, world.server_pid()))
        tables = await measure(bench, size, status.update)
        await asyncio.to_thread(check, env)
        return report.measured(mongodb=database.version(), settings=asdict(size), tables=tables)


def check(env: dict[str, str]) -> None:
    """Check that nothing was lost or doubled. Raise CalledProcessError otherwise."""
    subprocess.run([BIN / "portico", "doctor"], env=os.environ | env, check=True, stdout=subprocess.DEVNULL)


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    report.show_tables(console, result["tables"])


def main(
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/game.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run a short check, and do not store it.")] = False,
) -> None:
    """Measure moves, pick-ups and purchases."""
    size = QUICK if quick else FULL
    report.publish(lambda: asyncio.run(run(size, share_out())), json or (None if quick else RESULTS), show)


if __name__ == "__main__":
    typer.run(main)
