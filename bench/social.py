"""`python -m bench.social`: measure feeds, walls, fan-out and live feeds of the social network.

* A page of 20 of a news feed and of a wall: through the gateway, by hand with PyMongo on the same data, in the layout
  of MongoDB Applied Design Patterns, chapter 8, and, for feeds, by reading the latest posts of all followed authors.
* The same page for a reader with 1,000 blocks, and for readers who follow authors that are merged on read.
* Fan-out: deliveries a second with one and two workers, and the CPU time of one delivery.
* The time from a post to each of 1,000 subscribers.

The CPU time is user and system time: of the gateway, or of the Python process that reads by hand, and of mongod. The
numbers of commands and of examined documents come from MongoDB's profiler.
"""

import asyncio
import resource
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pymongo import AsyncMongoClient, MongoClient
from rich.console import Console

from bench import mongo, report, social_fan_out, social_live
from bench.buyers import SECRET
from bench.network import DATABASE, Network, Reader, follower
from bench.processes import HOST, Cores, share_out
from bench.shop import serving
from bench.social_pages import Pages, feed_pages, wall_pages
from portico.gateway.domains import load
from portico.resolvers.documents import Document
from portico.resolvers.indexes import create_indexes

RESULTS = Path(__file__).parent / "results" / "social.json"
FILES = 16_000
STAR, NEIGHBOUR, OWNER = "star", "neighbour", "busy"
Tables = dict[str, list[dict[str, Any]]]

console = Console(width=150)


@dataclass(frozen=True)
class Size:
    """The size of the measurements. `pages` is the number of pages in each round."""

    followed: tuple[int, ...]
    merged: tuple[int, ...]
    blocks: int
    wall: int
    pages: int
    followers: int
    posts: int
    subscribers: int
    live_posts: int
    copies: tuple[int, ...]
    comments: int
    copied_comments: int


FULL = Size(
    followed=(100, 1_000, 10_000),
    merged=(1, 10, 100),
    blocks=1_000,
    wall=10_000,
    pages=100,
    followers=10_000,
    posts=10,
    subscribers=1_000,
    live_posts=10,
    copies=(100, 1_000),
    comments=100,
    copied_comments=5,
)
QUICK = Size(
    followed=(100, 1_000),
    merged=(1, 10),
    blocks=1_000,
    wall=1_000,
    pages=20,
    followers=2_000,
    posts=4,
    subscribers=100,
    live_posts=5,
    copies=(100,),
    comments=10,
    copied_comments=2,
)


def environment(uri: str, folder: Path) -> dict[str, str]:
    return {
        "PORTICO_MONGODB_URI": uri,
        "PORTICO_DATABASE": DATABASE,
        "PORTICO_JWT_SECRET": SECRET,
        "PORTICO_DATA_DIR": str(folder),
        "PORTICO_LOG_LEVEL": "error",
        "PORTICO_SOCIAL_RATE": "1000000",
        "PORTICO_MAX_FAN_OUT": "1000000",
        "PORTICO_JOB_SECONDS": "86400",
        # Pings would be counted as deliveries.
        "PORTICO_KEEP_ALIVE_SECONDS": "600",
        "PORTICO_INIT_SECONDS": "60",
    }


def readers(size: Size) -> list[Reader]:
    return [
        *(Reader(f"reader-{count}", count) for count in size.followed),
        Reader("blocker", size.followed[0], blocks=size.blocks),
        *(Reader(f"merger-{count}", size.followed[0], merged=count) for count in size.merged),
    ]


async def create_collections(uri: str) -> None:
    async with AsyncMongoClient[Document](uri) as client:
        async for _ in create_indexes(client[DATABASE], load().collections):
            pass


def measure_pages(network: Network, pages: Pages, size: Size, say: Callable[[str], None]) -> Tables:
    """Return the tables of feeds and walls."""
    tables: Tables = {"A page of a news feed": [], "A page of a wall": [], "A page with blocks or merged authors": []}
    for reader in readers(size)[: len(size.followed)]:
        say(f"a feed with {reader.followed:,} followed")
        largest = network.store_book_feed(reader)
        found = pages.compare(feed_pages(pages, reader.name, has_book=largest is not None), size.pages)
        for name, sample in found.items():
            row = {"followed": reader.followed, "case": name, **asdict(sample)}
            tables["A page of a news feed"].append({**row, "largest_document": largest})
    say("a wall")
    largest = network.store_book_wall(OWNER)
    for name, sample in pages.compare(wall_pages(pages, OWNER, readers(size)[0].name), size.pages).items():
        tables["A page of a wall"].append({"posts": size.wall, "case": name, **asdict(sample)})
    say("blocks and merged authors")
    special = [readers(size)[0], *readers(size)[len(size.followed) :]]
    found = pages.compare({reader.name: pages.feed(reader.name) for reader in special}, size.pages, by_gateway=True)
    for reader in special:
        row = {"blocks": reader.blocks, "merged": reader.merged, **asdict(found[reader.name])}
        tables["A page with blocks or merged authors"].append(row)
    return tables


def measure_comments(network: Network, pages: Pages, size: Size, say: Callable[[str], None]) -> Tables:
    """Return the table of comments on a post that is in many feeds."""
    reader, rows, copied = readers(size)[0].name, [], 0
    for feeds in size.copies:
        say(f"a comment in {feeds:,} feeds")
        post = network.copy_book_feed(reader, feeds - copied, first=copied)
        copied = feeds
        rows.append(
            {
                "feeds": feeds,
                "gateway_mongod_cpu": pages.comment(reader, post, size.comments),
                "month_documents_mongod_cpu": pages.comment_in_copies(reader, post, size.copied_comments),
            }
        )
    return {"A comment": rows}


def measure_fan_out(network: Network, size: Size, env: dict[str, str], pid: int, say: Callable[[str], None]) -> Tables:
    """Return the table of fan-out."""
    network.follow(STAR, size.followers)
    rows = []
    for count in (1, 2):
        say(f"fan-out with {count} workers")
        sample = social_fan_out.measure(
            network,
            STAR,
            followers=size.followers,
            posts=size.posts,
            count=count,
            env={**env, "PORTICO_JOB_SECONDS": "0.2"},
            mongod_pid=pid,
        )
        rows.append(asdict(sample))
    return {"Fan-out": rows}


def measure_live(network: Network, size: Size, port: int, pages: Pages) -> Tables:
    """Return the table of subscribers."""
    network.follow(NEIGHBOUR, size.subscribers)
    names = [follower(number) for number in range(size.subscribers)]
    sample = asyncio.run(social_live.measure(port, NEIGHBOUR, names, size.live_posts, pages.token))
    return {"A post and its subscribers": [asdict(sample)]}


def run(size: Size, cores: Cores, parts: set[str]) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        client = stack.enter_context(MongoClient[Document](uri))
        status = stack.enter_context(console.status("preparing"))
        asyncio.run(create_collections(uri))
        network, env = Network(client), environment(uri, folder)
        server = client.admin.command("serverStatus")
        if "pages" in parts:
            network.store(max(size.followed), readers(size), size.wall)
        tables: Tables = {}
        with serving(cores.server, env) as (port, pid):
            pages = Pages(network, f"http://{HOST}:{port}", pid, server["pid"])
            if "pages" in parts:
                tables |= measure_pages(network, pages, size, status.update)
                tables |= measure_comments(network, pages, size, status.update)
            if "live" in parts:
                status.update("subscribers")
                tables |= measure_live(network, size, port, pages)
        if "fan-out" in parts:
            tables |= measure_fan_out(network, size, env, server["pid"], status.update)
        return report.measured(mongodb=server["version"], settings=asdict(size), tables=tables)


def show(result: dict[str, Any]) -> None:
    report.show_place(console, result)
    report.show_tables(console, result["tables"])


def main(
    parts: Annotated[str, typer.Option(help="What to measure, separated by commas.")] = "pages,live,fan-out",
    json: Annotated[
        Path | None, typer.Option(help="The file for the figures. Default: bench/results/social.json.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Run a short check, and do not store it.")] = False,
) -> None:
    """Measure feeds, walls, fan-out and live feeds."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES if hard == resource.RLIM_INFINITY else min(FILES, hard), hard))
    size = QUICK if quick else FULL
    report.publish(lambda: run(size, share_out(), set(parts.split(","))), json or (None if quick else RESULTS), show)


if __name__ == "__main__":
    typer.run(main)
