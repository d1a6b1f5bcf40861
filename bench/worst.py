# ruff: noqa: E501 - an operation is easier to read in one line
"""`python -m bench.worst`: what the worst operations within the default limits cost, on 300,000 objects a domain.

Each operation repeats a part under as many aliases as the limits allow. The gateway runs in this process. For each
operation it prints the CPU seconds of the gateway and of MongoDB, the commands, the index keys and the documents that
MongoDB examines, the bytes of the answer, and by how much the memory of this process grows at the peak.
"""

import asyncio
import gc
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pymongo import MongoClient
from rich.console import Console
from rich.table import Table

from bench import mongo, worst_data
from bench.processes import cpu_seconds, share_out
from portico.gateway.domains import load
from portico.gateway.mongo.driver import connect
from portico.gateway.operations.documents import InvalidOperation
from portico.gateway.settings import Settings
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Document
from portico.resolvers.indexes import create_indexes
from portico.schema.nodes import encode_id
from portico.schema.roles import Role
from portico.testing import Gateway, running
from portico.testing.gateways import SECRET

PROFILE_BYTES = 200_000_000
# The most seconds that one command of the fill can take.
FILL_SECONDS = 1_800
READS = ("find", "aggregate", "getMore", "count", "distinct")

console = Console(width=150)


@dataclass(frozen=True)
class Operation:
    """A part of an operation, with `%n` for the number of the alias and `%p` for the size of a page. The whole has as many as the limits allow.

    `caller` is the subject and the roles of the caller; None is an anonymous one. `before` and `after` surround all
    parts together.
    """

    part: str
    variables: dict[str, Any] = field(default_factory=dict)
    declared: str = ""
    before: str = ""
    after: str = ""
    caller: tuple[str, ...] | None = None

    def text(self, times: int) -> str:
        parts = " ".join(
            self.part.replace("%n", str(number)).replace("%p", str(1 + number % 100)) for number in range(times)
        )
        head = f"query ({self.declared}) " if self.declared else ""
        return f"{head}{{ {self.before} {parts} {self.after} }}"


@dataclass
class Cost:
    """What one operation costs. CPU times are seconds, `peak` is megabytes."""

    times: int
    gateway: float = 0.0
    mongod: float = 0.0
    commands: int = 0
    keys: int = 0
    documents: int = 0
    bytes: int = 0
    peak: float = 0.0
    codes: list[str] = field(default_factory=list)

    @property
    def examined(self) -> int:
        return self.keys + self.documents


def operations(known: dict[str, str]) -> dict[str, Operation]:
    """Returns the worst operations over the data of `worst_data`."""
    star, category = encode_id("User", "star"), encode_id("Category", known["category"])
    return {
        **_of_products(),
        **_of_categories(category, star),
        **_of_members(star),
        **_of_content(),
        **_of_ads(),
        **_of_feeds(),
        **_of_discussions(known),
    }


def _of_products() -> dict[str, Operation]:
    return {
        "totals": Operation("a%n: products(first: %p, sort: PRICE_ASC) { totalCount }"),
        "facets": Operation(
            "a%n: products(first: %p, filter: { minPrice: %n }) { facets { types { count } genres { count } categories { count } prices { count } } }"
        ),
        "searches": Operation('a%n: products(filter: { search: "%n" }, sort: RELEVANCE) { nodes { title } }'),
        "pages of products": Operation("a%n: products(first: 100, sort: PRICE_ASC) { nodes { c%n: title } }"),
        "whole products": Operation(
            "a%n: products(first: 100) { nodes { id sku title asin issueDate categories { slug } properties { name } } }"
        ),
        "filters of two conditions": Operation(
            "a%n: products(first: 1, filter: { type: GENERAL, minPrice: 1250, minPctSavings: %n }) { pageInfo { endCursor } }"
        ),
        "filters that exclude each other": Operation(
            'a%n: products(first: 1, filter: { type: GENERAL, genres: ["%n", "half"], inStock: false, minPrice: %n }, sort: TITLE_ASC) { pageInfo { endCursor } }'
        ),
        "filters below categories": Operation(
            "a%n: categories(first: 100) { nodes { products(first: 1, filter: { type: FILM, minPrice: %n }) { pageInfo { endCursor } } } }"
        ),
    }


def _of_categories(category: str, star: str) -> dict[str, Operation]:
    below: dict[str, Any] = {"declared": "$id: ID!", "variables": {"id": category}}
    return {
        "products of categories": Operation(
            "a%n: categories(first: 100) { nodes { products(first: 5) { nodes { title } } } }"
        ),
        "products below one category": Operation(
            "a%n: node(id: $id) { ... on Category { products(first: %p) { pageInfo { endCursor } } } }", **below
        ),
        "descendants": Operation(
            "a%n: node(id: $id) { ... on Category { descendants(first: 100) { nodes { c%n: name } } } }", **below
        ),
        "parents": Operation(
            "a%n: node(id: $id) { ... on Category { descendants(first: 100) { nodes { parent { children(first: 1) { nodes { slug } } } } } } }",
            **below,
        ),
        "a hundred nodes": Operation(
            "a%n: nodes(ids: $ids) { id }",
            {"ids": [star, category, *(encode_id("Product", f"C-{number}") for number in range(98))]},
            "$ids: [ID!]!",
        ),
    }


def _of_members(star: str) -> dict[str, Operation]:
    user: dict[str, Any] = {"declared": "$id: ID!", "variables": {"id": star}}
    return {
        "walls": Operation("a%n: user(id: $id) { wall(first: %p) { pageInfo { hasNextPage } } }", **user),
        "one post of a wall": Operation(
            "a%n: user(id: $id) { wall(first: 1) { pageInfo { hasNextPage } edges { month } } }", **user
        ),
        "walls by month": Operation('a%n: user(id: $id) { wall(first: 5, month: "201208") { nodes { id } } }', **user),
        "comments of posts": Operation(
            "a%n: user(id: $id) { wall(first: 20) { nodes { comments(first: 5) { nodes { text } } } } }", **user
        ),
        "followers": Operation("a%n: user(id: $id) { followers(first: 100) { nodes { c%n: name } } }", **user),
        "followers of followers": Operation(
            "a%n: user(id: $id) { followers(first: 100) { nodes { followers(first: 1) { nodes { id } } wall(first: 1) { nodes { id } } } } }",
            **user,
        ),
    }


def _of_content() -> dict[str, Operation]:
    return {
        "content by tag": Operation('a%n: contentByTag(tag: "news", first: 100) { nodes { c%n: title path } }'),
        "discussions of content": Operation(
            'a%n: contentByTag(tag: "news", first: 100) { nodes { discussion { commentCount } parent { title } } }'
        ),
    }


def _of_ads() -> dict[str, Operation]:
    words = [f"word {number}" for number in range(500)] + [f"other {number}" for number in range(9_500)]
    zone = f'siteId: "{worst_data.SITE}", zoneId: "full"'
    return {
        "choices of ads": Operation(
            f"a%n: chooseAds({zone}, keywords: $words, limit: 100) {{ __typename }}",
            {"words": words},
            "$words: [String!]!",
        ),
        "rejected ads": Operation(
            f"a%n: chooseAds({zone}, keywords: $words, limit: 1) {{ rejected {{ reason }} }}",
            {"words": words},
            "$words: [String!]!",
        ),
        "zones": Operation(f'a%n: adZone(siteId: "{worst_data.SITE}", zoneId: "%n") {{ ads {{ ecpm }} }}'),
    }


def _of_feeds() -> dict[str, Operation]:
    return {
        "news feeds": Operation(
            "a%n: newsFeed(first: 100) { nodes { c%n: id } }", before="viewer {", after="}", caller=("reader",)
        ),
        "incoming posts": Operation(
            "a%n: incoming(first: 1) { pageInfo { hasNextPage } }", before="viewer {", after="}", caller=("star",)
        ),
    }


def _of_discussions(known: dict[str, str]) -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for storage in (DOCUMENTS, EMBEDDED, PAGES):
        one: dict[str, Any] = {"declared": "$id: ID!", "variables": {"id": encode_id("Discussion", known[storage])}}
        thread, deepest = known[f"{storage} thread"], known[f"{storage} deepest"]
        found |= {
            f"comments, {storage}": Operation(
                "a%n: node(id: $id) { ... on Discussion { comments(first: 100) { nodes { c%n: id } } } }", **one
            ),
            f"first comments, {storage}": Operation(
                "a%n: node(id: $id) { ... on Discussion { comments(first: %p, order: CHRONOLOGICAL, maxDepth: 0) { pageInfo { hasNextPage } } } }",
                **one,
            ),
            f"roots, {storage}": Operation(
                "a%n: node(id: $id) { ... on Discussion { comments(first: 20, maxDepth: 0) { nodes { id } } } }", **one
            ),
            f"threads, {storage}": Operation(
                f'a%n: node(id: $id) {{ ... on Discussion {{ comment(slug: "{thread}") {{ thread(first: 100) {{ nodes {{ c%n: id }} }} replies(first: 1) {{ nodes {{ id }} }} }} }} }}',
                **one,
            ),
            f"ancestors, {storage}": Operation(
                f'a%n: node(id: $id) {{ ... on Discussion {{ comment(slug: "{deepest}") {{ parent {{ parent {{ parent {{ replies(first: 1) {{ nodes {{ id }} }} }} }} }} }} }} }}',
                **one,
            ),
        }
    return found


def most(gateway: Gateway, operation: Operation) -> int:
    """Returns under how many aliases the limits allow the part, at least once."""
    low, high = 1, 1_000
    while low < high:
        middle = (low + high + 1) // 2
        if _allows(gateway, operation, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _allows(gateway: Gateway, operation: Operation, times: int) -> bool:
    known = gateway.state.executor.operations
    try:
        found = known.get(operation.text(times))
        known.check(found, None, operation.variables)
    except InvalidOperation:
        return False
    return True


async def examine(gateway: Gateway, operation: Operation, times: int) -> Cost:
    """Runs an operation once with the profiler of MongoDB. Returns what was read and answered."""
    cost = Cost(times)
    db = gateway.db
    await db.command("profile", 0)
    await db["system.profile"].drop()
    await db.create_collection("system.profile", capped=True, size=PROFILE_BYTES)
    await db.command("profile", 2)
    await run(gateway, operation, times, cost)
    await db.command("profile", 0)
    async for entry in db["system.profile"].find({"ns": {"$not": {"$regex": "system.profile$"}}}):
        if entry["op"] in {"query", "command", "getmore"} and any(name in entry["command"] for name in READS):
            cost.commands += 1
            cost.keys += entry.get("keysExamined", 0)
            cost.documents += entry.get("docsExamined", 0)
    return cost


async def run(gateway: Gateway, operation: Operation, times: int, cost: Cost) -> None:
    token = (
        None
        if operation.caller is None
        else gateway.token(operation.caller[0], [Role(name) for name in operation.caller[1:]])
    )
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    body = {"query": operation.text(times), "variables": operation.variables}
    answer = await gateway.http.post("/graphql", json=body, headers=headers)
    cost.bytes = len(answer.content)
    cost.codes = sorted({error["extensions"]["code"] for error in answer.json().get("errors", ())})


async def measure(gateway: Gateway, operation: Operation, times: int, mongod: int) -> Cost:
    """Returns all costs of an operation. CPU is measured without the profiler, in a run of its own."""
    begun, begun_there, memory = time.process_time(), cpu_seconds(mongod), _peak()
    timed = Cost(times)
    await run(gateway, operation, times, timed)
    taken, taken_there, peak = time.process_time() - begun, cpu_seconds(mongod) - begun_there, _peak() - memory
    cost = await examine(gateway, operation, times)
    cost.gateway, cost.mongod, cost.peak = taken, taken_there, peak
    return cost


def _peak() -> float:
    """Returns the most memory that this process has had since the last call, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return peak / 1_000


async def run_all(uri: str, folder: Path, size: int, chosen: str, mongod: int) -> dict[str, Cost]:
    settings = Settings(
        mongodb_uri=Secret(uri),
        database="worst",
        data_dir=folder,
        jwt_secret=SECRET,
        jobs=False,
        log_level="error",
        # Nothing is kept from one request to the next.
        count_seconds=1e-6,
    )
    found = {}
    known = await _fill(settings, uri, size)
    async with running(settings) as gateway:
        # As `portico serve` does when it starts.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        for name, operation in operations(known).items():
            if chosen in name:
                found[name] = await measure(gateway, operation, most(gateway, operation), mongod)
                console.print(name, found[name], highlight=False)
    return found


async def _fill(settings: Settings, uri: str, size: int) -> dict[str, str]:
    """Fills the database, and then creates the indexes: MongoDB sorts the keys of an index faster than it inserts them."""
    connection = connect(replace(settings, database_seconds=FILL_SECONDS), uri)
    begun = time.monotonic()
    known = await worst_data.store(connection.database, size)
    console.print(f"filled in {time.monotonic() - begun:.0f} s")
    async for _ in create_indexes(connection.database, load().collections):
        pass
    await connection.close()
    console.print(f"filled and indexed in {time.monotonic() - begun:.0f} s")
    return known


def _pid_of(uri: str) -> int:
    with MongoClient[Document](uri) as client:
        pid: int = client.admin.command("serverStatus")["pid"]
        return pid


def main(
    size: Annotated[int, typer.Option(min=1, help="The number of objects of each domain.")] = 300_000,
    chosen: Annotated[str, typer.Option("--only", help="Only operations whose names contain this.")] = "",
) -> None:
    """Measure what the worst operations within the default limits cost."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(share_out().rest))
        costs = asyncio.run(run_all(uri, folder, size, chosen, _pid_of(uri)))
    table = Table("operation", "parts", "gateway s", "mongod s", "commands", "keys", "documents", "bytes", "peak MB")
    for name, cost in sorted(costs.items(), key=lambda one: -(one[1].gateway + one[1].mongod)):
        counted = (cost.commands, cost.keys, cost.documents, cost.bytes)
        times = (f"{cost.times:,}", f"{cost.gateway:.2f}", f"{cost.mongod:.2f}")
        table.add_row(name, *times, *(f"{number:,}" for number in counted), f"{cost.peak:.0f}")
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
