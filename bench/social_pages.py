"""Measures pages of feeds and walls: their commands, the documents that they examine, and their CPU time."""

import base64
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Any

import httpx
import orjson
from bson import ObjectId

from bench import feeds
from bench.buyers import SECONDS_TO_ANSWER, SECRET
from bench.feeds import FIRST, Read
from bench.network import BOOK_NEWS, BOOK_POSTS, SHOWN_COMMENTS, Network, by
from bench.processes import cpu_seconds
from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.schema.kinds import Kind

_POST = """
nodes {
  id posted audience by { name userId } commentCount
  latestComments { by { name userId } posted text }
  ... on StatusPost { text }
}
pageInfo { hasNextPage endCursor }
"""
FEED = f"query {{ viewer {{ newsFeed(first: {FIRST}) {{ {_POST} }} }} }}"
WALL = f"query ($id: ID!) {{ user(id: $id) {{ wall(first: {FIRST}) {{ {_POST} }} }} }}"
_COMMENT_ON_POST = "mutation ($input: CommentOnPostInput!) { commentOnPost(input: $input) { __typename } }"
COMMENT = "A comment of ordinary length, as they are on most days."
ROUNDS = 3
GATEWAY = "gateway"
# The longest time of a round, in seconds.
_SECONDS = 4.0
_WARMUP = 2
_COUNTED = {"query", "command", "getmore"}


@dataclass(frozen=True)
class Sample:
    """What a page costs. CPU times and `p50` are milliseconds; `cpu` is that of the gateway, or of the reader."""

    commands: int
    examined: int
    cpu: float
    mongod_cpu: float
    p50: float


Page = Callable[[], list[str]]


class Pages:
    """Pages of a gateway, and the same pages by hand."""

    def __init__(self, network: Network, address: str, gateway_pid: int, mongod_pid: int) -> None:
        self._network = network
        self._gateway_pid = gateway_pid
        self._mongod_pid = mongod_pid
        self._http = httpx.Client(base_url=address, timeout=SECONDS_TO_ANSWER)
        self._issuer = Authenticator(Settings(jwt_secret=Secret(SECRET)))

    def token(self, subject: str) -> str:
        return self._issuer.issue(subject, [], now=SystemClock().now(), lasts=timedelta(hours=6))

    def comment(self, reader: str, post: ObjectId, times: int) -> float:
        """Comment on a post through the gateway. Return the CPU milliseconds of mongod for a comment."""
        headers = {"authorization": f"Bearer {self.token(reader)}"}
        given = {"postId": Kind.encode_id("Post", post), "text": COMMENT}

        def write() -> None:
            result = self._ask(_COMMENT_ON_POST, {"input": given}, headers)["commentOnPost"]
            if result["__typename"] != "PostPayload":
                raise RuntimeError(str(result))

        return self._mongod_ms(write, times)

    def comment_in_copies(self, reader: str, post: ObjectId, times: int) -> float:
        """Do the same in month documents: in the post and in every copy of it, which keeps its last three comments."""
        comment = {"by": by(reader), "ts": self._network.now(), "text": COMMENT}
        last = {"$push": {"posts.$.comments": {"$each": [comment], "$slice": -SHOWN_COMMENTS}}}

        def write() -> None:
            self._network.db[BOOK_POSTS].update_one({"_id": post}, {"$push": {"comments": comment}}, upsert=True)
            self._network.db[BOOK_NEWS].update_many({"posts.id": post}, last)

        return self._mongod_ms(write, times)

    def _mongod_ms(self, write: Callable[[], None], times: int) -> float:
        write()
        before = cpu_seconds(self._mongod_pid)
        for _ in range(times):
            write()
        return round(1e3 * (cpu_seconds(self._mongod_pid) - before) / times, 3)

    def feed(self, reader: str) -> Page:
        """Return a page of the news feed through the gateway."""
        headers = {"authorization": f"Bearer {self.token(reader)}"}
        return lambda: self._keys(self._ask(FEED, {}, headers)["viewer"]["newsFeed"])

    def wall(self, owner: str, viewer: str) -> Page:
        headers = {"authorization": f"Bearer {self.token(viewer)}"}
        given = {"id": Kind.encode_id("User", owner)}
        return lambda: self._keys(self._ask(WALL, given, headers)["user"]["wall"])

    def by_hand(self, read: Read, name: str) -> Page:
        return lambda: [str(key) for key in read(self._network.db, name)]

    def compare(self, pages: dict[str, Page], times: int, *, by_gateway: bool = False) -> dict[str, Sample]:
        """Measure pages that must show the same posts. Raise RuntimeError if they differ.

        With `by_gateway`, all pages are those of the gateway, and otherwise the one of this name.
        """
        shown = {name: page() for name, page in pages.items()}
        first, expected = next(iter(shown.items()))
        for name, found in shown.items():
            if found != expected or len(found) != FIRST:
                message = f"{name} shows {found}, and {first} shows {expected}"
                raise RuntimeError(message)
        counted = {name: self._profiled(page) for name, page in pages.items()}
        pids = {name: self._gateway_pid if by_gateway or name == GATEWAY else os.getpid() for name in pages}
        rounds = [{name: self._timed(pids[name], page, times) for name, page in pages.items()} for _ in range(ROUNDS)]
        return {
            name: Sample(*counted[name], *(round(median(one[name][nth] for one in rounds), 3) for nth in range(3)))
            for name in pages
        }

    def _timed(self, pid: int, page: Page, times: int) -> tuple[float, float, float]:
        """Return the CPU milliseconds of the reader and of mongod for a page, and the median time.

        It measures fewer pages if they take long.
        """
        for _ in range(_WARMUP):
            page()
        before, mongod = cpu_seconds(pid), cpu_seconds(self._mongod_pid)
        taken: list[float] = []
        while len(taken) < times and sum(taken) < _SECONDS:
            begun = time.perf_counter()
            page()
            taken.append(time.perf_counter() - begun)
        after, mongod_after = cpu_seconds(pid), cpu_seconds(self._mongod_pid)
        return 1e3 * (after - before) / len(taken), 1e3 * (mongod_after - mongod) / len(taken), 1e3 * median(taken)

    def _profiled(self, page: Page) -> tuple[int, int]:
        """Return the commands of a page, and the documents that they examine."""
        db = self._network.db
        db.command("profile", 0)
        db["system.profile"].drop()
        db.command("profile", 2)
        page()
        db.command("profile", 0)
        found = [one for one in db["system.profile"].find({"op": {"$in": sorted(_COUNTED)}}) if _is_read(one)]
        return len(found), sum(one.get("docsExamined", 0) for one in found)

    def _ask(self, query: str, variables: dict[str, Any], headers: dict[str, str]) -> Any:
        answer = self._http.post("/graphql", json={"query": query, "variables": variables}, headers=headers)
        body = orjson.loads(answer.content)
        if "errors" in body:
            raise RuntimeError(str(body["errors"]))
        return body["data"]

    def _keys(self, page: Any) -> list[str]:
        return [_key_of(node["id"]) for node in page["nodes"]]


def _key_of(global_id: str) -> str:
    """Return the `_id` in the global id of a post."""
    padded = global_id + "=" * (-len(global_id) % 4)
    return base64.urlsafe_b64decode(padded).decode().partition(":")[2]


def _is_read(entry: Any) -> bool:
    return any(name in entry["command"] for name in ("find", "aggregate", "getMore"))


def feed_pages(pages: Pages, reader: str, *, has_book: bool) -> dict[str, Page]:
    """Return the ways to read a page of a news feed, by name."""
    ways: dict[str, Read] = {
        "PyMongo, same data": feeds.feed,
        "posts of followed authors, sorted": feeds.feed_by_authors,
    }
    if has_book:
        ways |= {"month documents": feeds.book_feed, "month documents, $slice": feeds.book_feed_slice}
    return {GATEWAY: pages.feed(reader), **{name: pages.by_hand(read, reader) for name, read in ways.items()}}


def wall_pages(pages: Pages, owner: str, viewer: str) -> dict[str, Page]:
    """Return the ways to read a page of a wall, by name."""
    ways: dict[str, Read] = {
        "PyMongo, same data": feeds.wall,
        "month documents": feeds.book_wall,
        "month documents, $slice": feeds.book_wall_slice,
    }
    return {GATEWAY: pages.wall(owner, viewer), **{name: pages.by_hand(read, owner) for name, read in ways.items()}}
