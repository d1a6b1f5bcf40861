"""`python -m bench.comments`: measure discussions of 200 and 10,000 comments in each storage, and plain PyMongo.

One gateway has a core of its own. MongoDB and the client share the other core. Requests are sent one after the other.
Plain PyMongo sends the command that fits the storage, fetches what the page shows, and writes it as JSON. It has no
checks and no GraphQL.
"""

import asyncio
import base64
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import httpx
import orjson
import typer
from pymongo import AsyncMongoClient, MongoClient
from rich.console import Console
from rich.table import Table

from bench import mongo, report
from bench.buyers import SECRET
from bench.processes import HOST, Cores, share_out
from bench.shop import gateway, sku
from bench.threads import put_discussion
from portico.gateway.auth import Authenticator
from portico.gateway.domains import load
from portico.gateway.settings import Settings
from portico.resolvers.comments.comments import THREADED, listing_of
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from portico.resolvers.comments.embedded_storage import EMBEDDED_DISCUSSIONS
from portico.resolvers.configuration import Secret
from portico.resolvers.cursors import Cursors
from portico.resolvers.documents import Document
from portico.resolvers.indexes import create_indexes

RESULTS = Path(__file__).parent / "results" / "comments.json"
# A small and a large discussion.
SIZES = (200, 10_000)
FIRST = 20
STORAGES = (DOCUMENTS, EMBEDDED, PAGES)
_ROW = "slug depth text posted author { name }"
PAGE = f"""
query ($id: ID!, $after: String, $order: CommentOrder!) {{
  node(id: $id) {{
    ... on Discussion {{
      comments(first: {FIRST}, after: $after, order: $order) {{
        nodes {{ {_ROW} }}
        pageInfo {{ hasNextPage endCursor }}
      }}
    }}
  }}
}}
"""
LINK = f"""
query ($id: ID!, $slug: String!) {{ node(id: $id) {{ ... on Discussion {{ comment(slug: $slug) {{ {_ROW} }} }} }} }}
"""
POST = """
mutation ($input: PostCommentInput!) {
  postComment(input: $input) { __typename ... on CommentPayload { comment { slug } } }
}
"""
_FIELDS = ("key", "slug", "depth", "text", "posted", "author.name")
console = Console()
_numbers = count(1)


@dataclass(frozen=True)
class Sample:
    """Milliseconds."""

    p50: float
    p99: float


def timed(work: Callable[[], Any], times: int) -> Sample:
    work()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    taken.sort()
    return Sample(median(taken), taken[int(len(taken) * 0.99)])


class Plain:
    """Hand-written reads for one storage, with only PyMongo."""

    def __init__(self, db: Any, storage: str, discussion: Any) -> None:
        self._db = db
        self._storage = storage
        self._discussion = discussion

    def page(self, after: str) -> bytes:
        rows = {DOCUMENTS: self._documents, EMBEDDED: self._embedded, PAGES: self._pages}[self._storage](after)
        return orjson.dumps({"rows": rows[:FIRST], "next": len(rows) > FIRST}, default=str)

    def _documents(self, after: str) -> list[Document]:
        query = {"discussion": self._discussion, "key": {"$gt": after}}
        fields = {**dict.fromkeys(_FIELDS, 1), "_id": 0}
        return list(self._db["comments"].find(query, fields).sort("key", 1).limit(FIRST + 1))

    def _embedded(self, after: str) -> list[Document]:
        behind = {"$filter": {"input": "$comments", "cond": {"$gt": ["$$this.key", after]}}}
        rows = {"$slice": [{"$sortArray": {"input": behind, "sortBy": {"key": 1}}}, FIRST + 1]}
        stages = [{"$match": {"_id": self._discussion}}, {"$project": {"rows": rows}}]
        (found,) = self._db[EMBEDDED_DISCUSSIONS.name].aggregate(stages)
        return list(found["rows"])

    def _pages(self, after: str) -> list[Document]:
        query = {"discussion": self._discussion, "high": {"$gt": after}}
        found = self._db["comment_pages"].find(query).sort("high", 1).limit(2)
        rows = [comment for page in found for comment in page["comments"] if comment["key"] > after]
        return sorted(rows, key=lambda comment: str(comment["key"]))

    def link(self, slug: str) -> bytes:
        here: dict[str, Any] = {"discussion": self._discussion}
        if self._storage == DOCUMENTS:
            row = self._db["comments"].find_one({**here, "slug": slug})
        elif self._storage == EMBEDDED:
            one = {"comments": {"$elemMatch": {"slug": slug}}}
            row = self._db[EMBEDDED_DISCUSSIONS.name].find_one({"_id": self._discussion}, one)
        else:
            key = self._db["comment_keys"].find_one({**here, "slug": slug})
            query = {**here, "low": {"$lte": key["key"]}}
            row = self._db["comment_pages"].find(query, {"comments": {"$elemMatch": {"_id": key["_id"]}}})
            row = row.sort("low", -1).limit(1)[0]
        return orjson.dumps(row, default=str)


class GatewayReads:
    """The same reads through the gateway."""

    def __init__(self, client: httpx.Client, discussion: str, token: str) -> None:
        self._client = client
        self._discussion = discussion
        self._token = token

    def ask(self, query: str, **variables: Any) -> Any:
        body = {"query": query, "variables": {"id": self._discussion, **variables}}
        headers = {"authorization": f"Bearer {self._token}"} if query is POST else {}
        answer = self._client.post("/graphql", json=body, headers=headers)
        found = orjson.loads(answer.content)
        if "errors" in found or found["data"].get("node", True) is None:
            raise RuntimeError(answer.text)
        return found["data"]

    def post(self) -> Any:
        given = {"discussionId": self._discussion, "text": f"One more, number {next(_numbers)}."}
        return self.ask(POST, input=given)


Made = dict[tuple[int, str], tuple[Document, list[Document]]]


async def prepare(uri: str) -> Made:
    """Store the discussions. Return them by size and storage, with their comments."""
    kinds = [(size, storage) for size in SIZES for storage in STORAGES]
    async with AsyncMongoClient[Document](uri) as client:
        db = client["bench"]
        async for _ in create_indexes(db, load().collections):
            pass
        return {
            (size, storage): await put_discussion(db, kind="Product", key=sku(number), storage=storage, made=size)
            for number, (size, storage) in enumerate(kinds)
        }


def global_id(kind: str, key: object) -> str:
    return base64.urlsafe_b64encode(f"{kind}:{key}".encode()).decode().rstrip("=")


def measure(port: int, uri: str, made: Made, times: int, say: Any) -> Any:
    settings = Settings(jwt_secret=Secret(SECRET))
    now = datetime.now(UTC).replace(tzinfo=None)
    token = Authenticator(settings).issue("poster", [], now=now, lasts=now - now.replace(year=now.year - 1))
    tables: list[dict[str, Any]] = []
    address = f"http://{HOST}:{port}"
    with MongoClient[Document](uri) as mongo_client, httpx.Client(base_url=address, timeout=60) as client:
        for (size, storage), (discussion, comments) in made.items():
            rows = sorted(comments, key=lambda one: str(one["key"]))
            plain = Plain(mongo_client["bench"], storage, discussion["_id"])
            asked = GatewayReads(client, global_id("Discussion", discussion["_id"]), token)
            cases = cases_of(storage, discussion, rows, plain, asked)
            for name, works in cases.items():
                say(f"{size:,} {storage}: {name}")
                taken = {who: asdict(timed(work, times)) for who, work in works.items()}
                tables.append({"size": size, "storage": storage, "case": name, **taken})
    return tables


def cases_of(
    storage: str, discussion: Document, rows: Sequence[Document], plain: Plain, asked: GatewayReads
) -> dict[str, dict[str, Callable[[], Any]]]:
    listing = listing_of(storage, discussion["_id"], order=THREADED, max_depth=None)
    last = rows[-FIRST - 1]
    after = Cursors(SECRET.encode()).encode(listing.binding(), listing.sort.key_of(last))
    slug = rows[len(rows) // 2]["slug"]
    return {
        "first page": {
            "gateway": lambda: asked.ask(PAGE, order=THREADED),
            "plain PyMongo": lambda: plain.page(""),
        },
        "last page": {
            "gateway": lambda: asked.ask(PAGE, order=THREADED, after=after),
            "plain PyMongo": lambda: plain.page(last["key"]),
        },
        "first page by time": {"gateway": lambda: asked.ask(PAGE, order="CHRONOLOGICAL")},
        "direct link": {"gateway": lambda: asked.ask(LINK, slug=slug), "plain PyMongo": lambda: plain.link(slug)},
        "a post": {"gateway": asked.post},
    }


def sizes(uri: str) -> dict[str, int]:
    """Return the bytes on disk of each collection, with its indexes."""
    with MongoClient[Document](uri) as client:
        names = ("comments", EMBEDDED_DISCUSSIONS.name, "comment_pages", "comment_keys")
        found = {name: client["bench"].command("collStats", name) for name in names}
        return {name: int(one["storageSize"] + one["totalIndexSize"]) for name, one in found.items()}


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    table = Table(title="ms (p50 / p99)", title_justify="left")
    for heading in ("comments", "storage", "", "gateway", "plain PyMongo"):
        table.add_column(heading)
    for row in result["tables"]:
        taken = [row[who] for who in ("gateway", "plain PyMongo") if who in row]
        figures = [f"{one['p50']:.2f} / {one['p99']:.2f}" for one in taken]
        table.add_row(f"{row['size']:,}", row["storage"], row["case"], *figures)
    console.print(table)
    console.print({name: f"{size / 1e6:.1f} MB" for name, size in result["bytes"].items()})


def run(cores: Cores, times: int) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        port = stack.enter_context(gateway(uri, cores.server, folder))
        status = stack.enter_context(console.status("preparing"))
        made = asyncio.run(prepare(uri))
        tables = measure(port, uri, made, times, status.update)
        return report.measured(tables=tables, bytes=sizes(uri))


def main(
    times: Annotated[int, typer.Option(min=10, help="The number of requests for each case.")] = 500,
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/comments.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run few requests as a check, and do not store them.")] = False,
) -> None:
    """Measure pages, links and posts of a large discussion in each storage."""
    report.publish(lambda: run(share_out(), 20 if quick else times), json or (None if quick else RESULTS), show)


if __name__ == "__main__":
    typer.run(main)
